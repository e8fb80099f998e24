"""The order of dims in memory at the boundary, compared with plain tensors and PyTorch's rules for DTensor."""

import pytest
import torch
import weft
from weft import Partial, Replicate, Shard

FORMATS = {
    "contiguous": lambda t: t,
    "channels last": lambda t: t.contiguous(memory_format=torch.channels_last),
    "transposed": lambda t: t.transpose(0, 3).contiguous().transpose(0, 3),
    "permuted": lambda t: t.permute(2, 0, 3, 1).contiguous().permute(1, 3, 0, 2),
}
GLOBAL = torch.arange(4.0 * 6 * 4 * 2).reshape(4, 6, 4, 2)


def on_mesh(program, ranks=2):
    return weft.run_on_ranks(ranks, lambda rank: program(weft.init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))))


def ordered(tensor):
    """The dims by their strides."""
    return sorted(range(tensor.dim()), key=lambda dim: -tensor.stride(dim))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Replicate(), Partial()])
def test_a_distributed_tensor_has_the_strides_of_the_global_one(name, placement):
    plain = FORMATS[name](GLOBAL)

    def program(mesh):
        x = weft.distribute_tensor(plain, mesh, [placement])
        assert x.stride() == plain.stride() and x.placements == (placement,)
        assert ordered(x.to_local()) == ordered(plain)
        full = x.full_tensor()
        assert torch.equal(full, plain) and full.stride() == plain.stride()
        assert torch.equal((x.relu() * 2 if placement != Partial() else x * 2).full_tensor(), plain * 2)
        assert (x * 2).stride() == (plain * 2).stride()

    on_mesh(program)


@pytest.mark.parametrize("dims, form", [(4, torch.channels_last), (5, torch.channels_last_3d)])
def test_an_empty_shard_is_channels_last_where_the_others_are(dims, form):
    """Five rows over four ranks leave the last one without any."""
    plain = torch.randn(2, 3, 5, *([4] * (dims - 3))).contiguous(memory_format=form)

    def program(mesh):
        x = weft.distribute_tensor(plain, mesh, [Shard(2)]).requires_grad_()
        moved = weft.distribute_tensor(plain, mesh, [Replicate()]).redistribute(placements=[Shard(2)])
        local = x.to_local()
        (local * 2).sum().backward()
        for each in (local, moved.to_local(), x.grad.to_local()):
            assert each.is_contiguous(memory_format=form) and each.shape[2] in (2, 1, 0)

    on_mesh(program, ranks=4)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("source", [Shard(0), Shard(2), Replicate(), Partial()])
@pytest.mark.parametrize("target", [Shard(0), Shard(1), Replicate()])
def test_redistribute_keeps_the_order_of_dims(name, source, target):
    plain = FORMATS[name](GLOBAL)

    def program(mesh):
        x = weft.distribute_tensor(plain, mesh, [source]).requires_grad_()
        for async_op in (False, True):
            y = x.redistribute(placements=[target], async_op=async_op)
            assert y.stride() == plain.stride() and ordered(y.to_local()) == ordered(plain)
            assert torch.equal(y.full_tensor(), plain)
        weight = weft.distribute_tensor(plain, mesh, [target])
        (y * weight).sum().backward()
        assert torch.equal(x.grad.full_tensor(), plain)
        half = x.redistribute(placements=[target], forward_dtype=torch.bfloat16)
        assert half.stride() == plain.stride() and half.dtype == torch.bfloat16

    on_mesh(program)


def test_uneven_shards_keep_the_order_of_dims():
    plain = torch.arange(105.0).reshape(3, 5, 7).permute(2, 0, 1)

    def program(mesh):
        for dim in range(3):
            x = weft.distribute_tensor(plain, mesh, [Shard(dim)])
            for other in (Shard((dim + 1) % 3), Replicate()):
                y = x.redistribute(placements=[other])
                assert y.stride() == plain.stride() and torch.equal(y.full_tensor(), plain)

    on_mesh(program, ranks=4)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("dim", range(4))
def test_from_local_keeps_strides_and_memory(name, dim):
    local = FORMATS[name](GLOBAL.clone())

    def program(mesh):
        mine = local.clone()
        x = weft.from_local(mine, mesh, [Shard(dim)])
        # The strides that torch.distributed.tensor gives to the DTensor.
        strides = [s * 2 if d != dim and s >= local.stride(dim) else s for d, s in enumerate(local.stride())]
        assert x.stride() == tuple(strides)
        assert x.to_local().data_ptr() == mine.data_ptr() and x.to_local().stride() == local.stride()
        x.add_(1)
        assert torch.equal(mine, local + 1)
        assert torch.equal(x.full_tensor(), torch.cat([mine, mine], dim))

    on_mesh(program)


def test_a_local_tensor_with_gaps_is_copied():
    def program(mesh):
        for odd in (torch.arange(8.0)[::2], torch.ones(1).expand(4), torch.arange(16.0).reshape(4, 4)[:, 1:3]):
            x = weft.from_local(odd, mesh, [Shard(0)])
            assert x.is_contiguous() and torch.equal(x.full_tensor(), torch.cat([odd, odd]))

    on_mesh(program)


def test_a_convolution_of_a_channels_last_batch():
    plain = torch.nn.Conv2d(6, 4, 3, padding=1)
    batch = GLOBAL.contiguous(memory_format=torch.channels_last)

    def program(mesh):
        x = weft.distribute_tensor(batch, mesh, [Shard(0)])
        weight, bias = (weft.distribute_tensor(p.detach(), mesh, [Replicate()]) for p in (plain.weight, plain.bias))
        y = torch.nn.functional.conv2d(x, weight, bias, padding=1)
        torch.testing.assert_close(y.full_tensor(), plain(batch).detach())

    on_mesh(program)


REDUCTIONS = {
    torch.float32: ["sum", "avg", "max", "min", "product"],
    torch.int64: ["sum", "max", "min", "product"],
    torch.complex64: ["sum", "avg", "product"],
}


@pytest.mark.parametrize("dtype, reduce_op", [(dtype, op) for dtype, ops in REDUCTIONS.items() for op in ops])
@pytest.mark.parametrize("source", [0, None])
@pytest.mark.parametrize("shape", [(), (5,), (4, 3)])
def test_a_partial_tensor_reduces_to_the_given_one(dtype, reduce_op, source, shape):
    values = (10 * torch.randn(shape)).to(dtype)

    def program(mesh):
        x = weft.distribute_tensor(values, mesh, [Partial(reduce_op)], src_data_rank=source)
        assert x.placements == (Partial(reduce_op),) and x.dtype == values.dtype
        torch.testing.assert_close(x.full_tensor(), values)

    on_mesh(program, ranks=3)


def test_a_partial_tensor_is_a_leaf_as_its_source():
    def program(mesh):
        x = weft.distribute_tensor(torch.ones(3, requires_grad=True), mesh, [Partial()])
        assert x.is_leaf and x.requires_grad
        assert weft.distribute_tensor(x, mesh, [Partial()]) is x

    on_mesh(program)
