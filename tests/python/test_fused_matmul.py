"""Matmuls that overlap collectives, on plain tensors and chosen for distributed ones."""

import pytest
import torch
import weft
from weft import Shard


def parts(tensor, size, dim):
    """As torch.chunk makes them, empty ones too."""
    length = -(-tensor.shape[dim] // size)
    return [tensor.narrow(dim, min(i * length, tensor.shape[dim]), max(0, min(length, tensor.shape[dim] - i * length))) for i in range(size)]


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_a_gather_beside_matmuls_is_the_two_one_after_the_other(size, dim):
    whole = torch.randn(4, 6, 8, dtype=torch.float64)
    weights = torch.randn(size, 2, 8, 5, dtype=torch.float64)
    bias = torch.randn(5, dtype=torch.float64)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))
        shard = parts(whole, size, dim)[rank].clone().requires_grad_()
        others = [weights[rank, i].clone().requires_grad_() for i in range(2)]
        (a, b), gathered = weft.all_gather_matmul(
            shard, others, mesh, dim=dim, mesh_dim="tp", biases=[bias, None], size=whole.shape[dim], gathered=True
        )
        torch.testing.assert_close(gathered, whole)
        torch.testing.assert_close(a, whole @ others[0] + bias)
        torch.testing.assert_close(b, whole @ others[1])
        (a.sum() + 2 * b.sum()).backward()
        return shard.grad, [other.grad for other in others]

    results = weft.run_on_ranks(size, rank_program)
    ones = torch.ones(4, 6, 5, dtype=torch.float64)
    expected = sum(ones @ weights[r, 0].t() + 2 * ones @ weights[r, 1].t() for r in range(size))
    for (shard_grad, other_grads), part in zip(results, parts(expected, size, dim), strict=True):
        torch.testing.assert_close(shard_grad, part)
        torch.testing.assert_close(other_grads[0], whole.flatten(0, 1).t() @ ones.flatten(0, 1))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("reduce_op", ["sum", "avg"])
def test_matmuls_beside_a_scatter_are_the_two_one_after_the_other(size, dim, reduce_op):
    inputs = torch.randn(size, 4, 7, 3, dtype=torch.float64)
    weights = torch.randn(size, 3, 6, dtype=torch.float64)
    total = sum(inputs[r] @ weights[r] for r in range(size)) / (size if reduce_op == "avg" else 1)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (size,))
        x, w = inputs[rank].clone().requires_grad_(), weights[rank].clone().requires_grad_()
        y = weft.matmul_reduce_scatter(x, w, mesh, dim=dim, reduce_op=reduce_op, chunks=2)
        torch.testing.assert_close(y, parts(total, size, dim)[rank])
        y.sum().backward()
        short = weft.matmul_reduce_scatter(x.detach(), w.detach(), mesh, dim=dim, reduce_op=reduce_op, dtype=torch.float32)
        torch.testing.assert_close(short, parts(total, size, dim)[rank].float())
        return x.grad

    for rank, grad in enumerate(weft.run_on_ranks(size, rank_program)):
        expected = torch.ones(4, 7, 6, dtype=torch.float64) @ weights[rank].t() / (size if reduce_op == "avg" else 1)
        torch.testing.assert_close(grad, expected)


def test_one_other_gives_one_output():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        x, w = torch.full((2, 3), float(rank)), torch.ones(3, 4)
        assert weft.all_gather_matmul(x, w, mesh, mesh_dim="tp").shape == (4, 4)
        assert weft.all_gather_matmul(x, w, mesh, mesh_dim=("dp", "tp"), chunks=2)[:, 0].tolist() == [0, 0, 3, 3, 6, 6, 9, 9]
        with mesh:
            output, gathered = weft.all_gather_matmul(x, w, mesh_dim=0, gathered=True)
        assert output.shape == (4, 4) and gathered.shape == (4, 3)
        with pytest.raises(ValueError, match=r"\[all_gather_matmul\] mesh_dim is required for a mesh of several dims"):
            weft.all_gather_matmul(x, w, mesh)

    weft.run_on_ranks(4, rank_program)


def test_distributed_tensors_are_refused():
    mesh = weft.init_device_mesh("cpu", (1,))
    x = weft.ones(2, 2, device_mesh=mesh)
    with pytest.raises(TypeError, match=r"\[all_gather_matmul\] plain tensors are required"):
        weft.all_gather_matmul(x, torch.ones(2, 2), mesh)
    with pytest.raises(TypeError, match=r"\[matmul_reduce_scatter\] plain tensors are required"):
        weft.matmul_reduce_scatter(torch.ones(2, 2), x, mesh)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_layer_runs_beside_the_gathering_of_its_input(size):
    x, w, b = torch.randn(2, 7, 4), torch.randn(9, 4), torch.randn(9)

    def run(mesh, mode):
        leaves = [
            weft.distribute_tensor(x, mesh, [Shard(1)]).requires_grad_(),
            weft.distribute_tensor(w, mesh, [Shard(0)]).requires_grad_(),
            weft.distribute_tensor(b, mesh, [Shard(0)]).requires_grad_(),
        ]
        with weft.overlap(mode), weft.explain() as explained:
            y = torch.nn.functional.linear(leaves[0] * 1, leaves[1], leaves[2])
            (y * y).sum().backward()
        assert ("fused: as the scope says" in str(explained)) == (mode == "force")
        assert ("matmul_reduce_scatter" in str(explained)) == (mode == "force")
        return [y.detach().full_tensor(), *(leaf.grad.full_tensor() for leaf in leaves)]

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (size,))
        for fused, unfused in zip(run(mesh, "force"), run(mesh, "off"), strict=True):
            torch.testing.assert_close(fused, unfused)

    weft.run_on_ranks(size, rank_program)


def test_an_unknown_mode_is_an_error():
    with pytest.raises(ValueError, match=r"\[overlap\] one of 'auto', 'off' and 'force' is required, but got 'on'"):
        weft.overlap("on")
