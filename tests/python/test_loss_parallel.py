"""weft.loss_parallel, compared with plain tensors."""

import pytest
import torch
import torch.nn.functional as F

import weft
from weft import Replicate, Shard


def logits_and_target():
    generator = torch.Generator().manual_seed(3)
    return torch.randn(6, 10, generator=generator), torch.randint(0, 10, (6,), generator=generator)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
def test_cross_entropy_equals_that_of_one_device(reduction, label_smoothing):
    logits, target = logits_and_target()
    weight = torch.rand(10, generator=torch.Generator().manual_seed(4))
    options = {"reduction": reduction, "label_smoothing": label_smoothing, "ignore_index": int(target[0])}
    plain = logits.clone().requires_grad_()
    expected = F.cross_entropy(plain, target, weight, **options)
    expected.sum().backward()

    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        x = weft.distribute_tensor(logits, mesh, [Shard(0), Shard(1)]).requires_grad_()
        with weft.loss_parallel():
            loss = F.cross_entropy(x, target, weight, **options)
            loss.sum().backward()
        torch.testing.assert_close(loss.full_tensor(), expected)
        torch.testing.assert_close(x.grad.full_tensor(), plain.grad)
        assert x.grad.placements == (Shard(0), Shard(1))

    weft.run_on_ranks(4, program)


def test_a_module_takes_it_too_and_logits_are_not_gathered():
    logits, target = logits_and_target()

    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        x = weft.distribute_tensor(logits, mesh, [Shard(1)]).requires_grad_()
        y = weft.distribute_tensor(target, mesh, [Replicate()])
        with weft.comm_debug() as comm:
            loss = torch.nn.CrossEntropyLoss()(x, y)
            loss.backward()
        assert [(row.collective, row.calls) for row in comm.rows] == [("all_reduce", 2)]
        torch.testing.assert_close(loss.full_tensor(), F.cross_entropy(logits, target))

    weft.run_on_ranks(2, program)


def test_the_scope_ends():
    logits, target = logits_and_target()

    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        x = weft.distribute_tensor(logits, mesh, [Shard(1)])
        with weft.loss_parallel():
            F.cross_entropy(x, target)
            with weft.loss_parallel(enabled=False), pytest.raises(ValueError, match="plain"):
                F.cross_entropy(x, target)
        with pytest.raises(ValueError, match="plain"):
            F.cross_entropy(x, target)
        with pytest.raises(ValueError, match="__enter__"):
            weft.loss_parallel().__exit__()

    weft.run_on_ranks(2, program)


def test_a_wrong_target_is_an_index_error():
    logits, target = logits_and_target()

    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        x = weft.distribute_tensor(logits, mesh, [Shard(1)])
        with weft.loss_parallel(), pytest.raises(IndexError, match="targets must be classes from 0 to 9"):
            F.cross_entropy(x, target + 10)

    weft.run_on_ranks(2, program)
