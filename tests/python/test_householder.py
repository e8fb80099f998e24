"""Products of Householder reflections: their gradients are computed on replicated tensors."""

import pytest
import torch
import weft
from weft import Replicate, Shard


def householder_product(a, tau, other):
    return torch.linalg.householder_product(a, tau)


def ormqr(a, tau, other):
    return torch.ormqr(a, tau, other, left=True, transpose=True)


@pytest.mark.parametrize("program", [householder_product, ormqr])
@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Replicate()])
def test_results_and_gradients_are_those_of_plain_tensors(program, placement):
    torch.manual_seed(0)
    plain = [torch.randn(3, 4, 3), torch.randn(3, 3), torch.randn(3, 4, 2)]
    want = [t.clone().requires_grad_() for t in plain]
    expected = program(*want)
    expected.square().sum().backward()

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        own = [weft.distribute_tensor(t.clone(), mesh, [placement]) for t in plain]
        torch.testing.assert_close(program(*own).full_tensor(), expected.detach())
        for t in own:
            t.requires_grad_()
        got = program(*own)
        torch.testing.assert_close(got.full_tensor().detach(), expected.detach())
        got.square().sum().backward()
        for t, w in zip(own, want):
            if w.grad is not None:
                torch.testing.assert_close(t.grad.full_tensor(), w.grad)
                assert t.grad.placements == (placement,)
        with weft.strict():
            if placement != Replicate():
                with pytest.raises(ValueError, match="would communicate"):
                    program(*own)

    weft.run_on_ranks(2, on_rank)
