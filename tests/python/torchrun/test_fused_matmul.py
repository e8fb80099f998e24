"""The fused operators on the process groups of torch.distributed: eagerly, and in programs that torch loads and runs."""

import pytest
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


class Scaled(torch.nn.Module):
    def __init__(self, group, dtype):
        super().__init__()
        self.group, self.dtype = group, dtype
        self.register_buffer("weight", torch.ones(16, 16).to(torch.float8_e4m3fn))
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x):
        (y,) = torch.ops.weft.all_gather_scaled_matmul(
            x.to(torch.float8_e4m3fn), self.scale, [self.weight.t()], [self.scale], [None], [None], [self.dtype], [False], 0,
            2 * x.shape[0], 1, False, self.group,
        )
        return (y.float(),)


def check_through_files(model, x, expected, tmp_path):
    exported = torch.export.export(model, (x,))
    original, rewritten = tmp_path / f"original_{dist.get_rank()}.pt2", tmp_path / f"rewritten_{dist.get_rank()}.pt2"
    torch.export.save(exported, original)
    _C.rewrite_pt2(str(original), str(rewritten))
    for path in (original, rewritten):
        for actual, wanted in zip(torch.export.load(path).module()(x), expected, strict=True):
            torch.testing.assert_close(actual, wanted)


def test_a_program_goes_through_files_and_runs_by_the_name_of_the_group(tmp_path):
    rank = dist.get_rank()
    model = Fused(dist.group.WORLD.group_name)
    x = torch.arange(8.0).view(2, 4) + rank
    whole = torch.cat([torch.arange(8.0).view(2, 4) + r for r in range(2)])
    expected = (2 * (2 * whole @ torch.ones(4, 6) + 1).chunk(2)[rank] @ torch.ones(6, 4), whole)
    for actual, wanted in zip(model(x), expected, strict=True):
        torch.testing.assert_close(actual, wanted)
    check_through_files(model, x, expected, tmp_path)


@pytest.mark.parametrize("dtype", [torch.bfloat16, None])
def test_lists_of_dtypes_go_through_files(dtype, tmp_path):
    model = Scaled(dist.group.WORLD.group_name, dtype)
    x = torch.full((2, 16), 1.0 + dist.get_rank())
    expected = torch.cat([torch.full((2, 16), 16.0 * (1 + rank)) for rank in range(2)])
    check_through_files(model, x, (expected,), tmp_path)


class Dynamic(torch.nn.Module):
    def __init__(self, group):
        super().__init__()
        self.group = group

    def forward(self, x):
        (y,) = torch.ops.weft.all_gather_matmul(x, [x.t() @ x], [None], 0, 2 * x.shape[0], 2, False, self.group)
        return (y,)


def test_the_size_of_the_whole_may_be_known_later(tmp_path):
    rows = torch.export.Dim("rows", min=2, max=64)
    exported = torch.export.export(Dynamic(dist.group.WORLD.group_name), (torch.ones(4, 3),), dynamic_shapes=({0: rows},))
    original, rewritten = tmp_path / f"original_{dist.get_rank()}.pt2", tmp_path / f"rewritten_{dist.get_rank()}.pt2"
    torch.export.save(exported, original)
    _C.rewrite_pt2(str(original), str(rewritten))
    for length in (4, 7):
        x = torch.randn(length, 3)
        dist.broadcast(x, 0)
        (y,) = torch.export.load(rewritten).module()(x)
        torch.testing.assert_close(y, torch.cat([x, x]) @ (x.t() @ x))


def test_ranks_decide_alike_by_what_they_measure():
    mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    x, w = torch.randn(512, 512, dtype=torch.float64), torch.randn(1024, 512, dtype=torch.float64)
    dist.broadcast(x, 0)
    dist.broadcast(w, 0)
    leaves = [weft.distribute_tensor(each, mesh, [weft.Shard(0)]).requires_grad_() for each in (x, w)]
    with weft.explain() as explained:
        y = torch.nn.functional.linear(leaves[0] * 1, leaves[1])
        (y * y).sum().backward()
    texts = [None, None]
    dist.all_gather_object(texts, str(explained))
    assert texts[0] == texts[1]
    torch.testing.assert_close(y.full_tensor(), x @ w.t())
    torch.testing.assert_close(leaves[0].grad.full_tensor(), 2 * x @ w.t() @ w)
