"""Forward mode AD over distributed tensors: refused where ranks are threads, since torch has one dual level per process."""

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
import weft

DUAL_LEVEL = r"\[forward_ad\] forward mode AD needs one rank per process, but this is one of 2 ranks that are threads\."


def sharded(tensor, mesh):
    return weft.distribute_tensor(tensor, mesh, [weft.Shard(0)])


def test_ranks_as_threads_may_not_enter_a_dual_level():
    def rank(_):
        with pytest.raises(NotImplementedError, match=DUAL_LEVEL):
            with forward_ad.dual_level():
                pass
        mesh = weft.init_device_mesh("cpu", (2,))
        x = sharded(torch.ones(4, 4), mesh)
        with pytest.raises(NotImplementedError, match=DUAL_LEVEL):
            torch.func.jvp(torch.sin, (x,), (x,))
        with pytest.raises(NotImplementedError, match=DUAL_LEVEL):
            torch.func.jacfwd(torch.sin)(x)
        return True

    assert weft.run_on_ranks(2, rank) == [True, True]


def test_the_double_backward_trick_needs_no_dual_level():
    x, tangent, w = torch.randn(3, 4, 4)
    expected = torch.autograd.functional.jvp(lambda x: torch.tanh(x @ w).sum(0), x, tangent)

    def rank(_):
        mesh = weft.init_device_mesh("cpu", (2,))
        weight = sharded(w, mesh)
        result = torch.autograd.functional.jvp(
            lambda x: torch.tanh(x @ weight).sum(0), sharded(x, mesh), sharded(tangent, mesh)
        )
        for one, other in zip(result, expected):
            torch.testing.assert_close(one.full_tensor(), other)

    weft.run_on_ranks(2, rank)


def test_one_rank_by_itself_may():
    mesh = weft.init_device_mesh("cpu", (1,))
    x, tangent = torch.randn(2, 4, 4)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(sharded(x, mesh), sharded(tangent, mesh))
        result = forward_ad.unpack_dual(torch.sin(dual).sum(0)).tangent.full_tensor()
    torch.testing.assert_close(result, (torch.cos(x) * tangent).sum(0))

    def rank(_):
        with forward_ad.dual_level():
            return True

    assert weft.run_on_ranks(1, rank) == [True]


def test_an_expanded_number_counts_as_a_number():
    mesh = weft.init_device_mesh("cpu", (1,))
    x = torch.randn(4, 4)
    y = torch.mm(sharded(x, mesh), torch.tensor(2.0).expand(4, 4))
    torch.testing.assert_close(y.full_tensor(), x.mm(torch.full((4, 4), 2.0)))
    with pytest.raises(ValueError, match="distributed and plain tensors cannot be mixed"):
        torch.mm(sharded(x, mesh), torch.tensor([1.0, 2.0, 3.0, 4.0]).expand(4, 4))
