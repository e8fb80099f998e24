"""The fused operators on the process groups of torch.distributed: eagerly, and in programs that torch loads and runs."""

import torch
import torch.distributed as dist
import weft
from weft import _C


def test_eagerly_with_gradients_as_the_unfused():
    mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    rank = dist.get_rank()
    torch.manual_seed(3)
    whole, weights = torch.randn(5, 6), torch.randn(2, 6, 4)
    x = whole.chunk(2)[rank].clone().requires_grad_()
    w = weights[rank].clone().requires_grad_()
    y = weft.all_gather_matmul(x, w, mesh, size=5, chunks=2)
    torch.testing.assert_close(y, whole @ w)
    z = weft.matmul_reduce_scatter(y, w.t(), mesh, chunks=2)
    torch.testing.assert_close(z, sum(whole @ each @ each.t() for each in weights).chunk(2)[rank])
    z.sum().backward()
    leaves = [whole.clone().requires_grad_(), *(each.clone().requires_grad_() for each in weights)]
    sum(leaves[0] @ each @ each.t() for each in leaves[1:]).sum().backward()
    torch.testing.assert_close(x.grad, leaves[0].grad.chunk(2)[rank])
    torch.testing.assert_close(w.grad, leaves[1 + rank].grad)


class Fused(torch.nn.Module):
    """Calls the operators by the name of a process group."""

    def __init__(self, group):
        super().__init__()
        self.group = group
        self.up = torch.nn.Parameter(torch.ones(4, 6))
        self.bias = torch.nn.Parameter(torch.ones(6))

    def forward(self, x):
        a, b, whole = torch.ops.weft.all_gather_matmul(
            x, [self.up, self.up], [None, self.bias], 0, None, 2, True, self.group
        )
        y = torch.ops.weft.matmul_reduce_scatter([a, b], [self.up.t(), self.up.t()], None, "sum", 0, 1, self.group)
        return y, whole


def test_a_program_goes_through_files_and_runs_by_the_name_of_the_group(tmp_path):
    rank = dist.get_rank()
    model = Fused(dist.group.WORLD.group_name)
    x = torch.arange(8.0).view(2, 4) + rank
    expected = model(x)
    whole = torch.cat([torch.arange(8.0).view(2, 4) + r for r in range(2)])
    torch.testing.assert_close(expected[1], whole)
    torch.testing.assert_close(expected[0], 2 * (2 * whole @ torch.ones(4, 6) + 1).chunk(2)[rank] @ torch.ones(6, 4))
    exported = torch.export.export(model, (x,))
    original, rewritten = tmp_path / f"original_{rank}.pt2", tmp_path / f"rewritten_{rank}.pt2"
    torch.export.save(exported, original)
    _C.rewrite_pt2(str(original), str(rewritten))
    for path in (original, rewritten):
        for actual, wanted in zip(torch.export.load(path).module()(x), expected, strict=True):
            torch.testing.assert_close(actual, wanted)
