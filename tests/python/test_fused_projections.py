"""Queries, keys and values of different sizes that one layer computes: every rank has its heads of each, and a layer of attention
communicates as often as with three layers."""

import copy

import pytest
import torch
import torch.nn.functional as F
import weft
from torch import nn
from weft import ColwiseParallel, Replicate, RowwiseParallel, Shard, StridedShard

HEADS, SHARED, SIZE = 8, 4, 2  # queries have HEADS heads, keys and values SHARED
PARTS = [HEADS, SHARED, SHARED]
BLOCKS = StridedShard(0, blocks=PARTS)


class Attention(nn.Module):
    def __init__(self, cut):
        super().__init__()
        self.cut = cut
        self.qkv = nn.Linear(12, sum(PARTS) * SIZE)
        self.out = nn.Linear(HEADS * SIZE, 12)

    def forward(self, x):
        heads = [each.unflatten(-1, (-1, SIZE)).transpose(1, 2) for each in self.cut(self.qkv(x))]
        mixed = F.scaled_dot_product_attention(*heads, is_causal=True, enable_gqa=True)
        return self.out(mixed.transpose(1, 2).flatten(2))


def by_slices(qkv):
    keys = HEADS * SIZE
    values = keys + SHARED * SIZE
    return qkv[..., :keys], qkv[..., keys:values], qkv[..., values:]


def by_split(qkv):
    return qkv.split([part * SIZE for part in PARTS], dim=-1)


def by_two_slices(qkv):
    queries, others = qkv[..., : HEADS * SIZE], qkv[..., HEADS * SIZE :]
    return queries, *others.chunk(2, dim=-1)


def trained(model, x):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    outputs = []
    for _ in range(3):
        outputs.append(model(x))
        outputs[-1].square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return outputs


def parallel(model, mesh):
    plan = {"qkv": ColwiseParallel(use_local_output=False, parts=PARTS), "out": RowwiseParallel(use_local_output=False)}
    return weft.parallelize_module(copy.deepcopy(model), mesh, plan)


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("cut", [by_slices, by_split, by_two_slices])
def test_heads_of_different_numbers_train_as_on_a_single_device(cut, ranks):
    torch.manual_seed(0)
    model, x = Attention(cut), torch.randn(2, 5, 12)
    expected = trained(copy.deepcopy(model), x)

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (ranks,))
        ours = parallel(model, mesh)
        assert ours.qkv.weight.placements == (BLOCKS,) == ours.qkv.bias.placements
        assert torch.equal(ours.qkv.weight.full_tensor(), model.qkv.weight)
        for actual, wanted in zip(trained(ours, x), expected, strict=True):
            torch.testing.assert_close(weft.full_tensor(actual), wanted)
        assert ours.qkv.weight.placements == (BLOCKS,)

    weft.run_on_ranks(ranks, on_rank)


@pytest.mark.parametrize("cut", [by_slices, by_split])
def test_attention_communicates_once_forward_and_once_backward(cut):
    model, x = Attention(cut), torch.randn(2, 5, 12)

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        ours = parallel(model, mesh)
        given = weft.distribute_tensor(x, mesh).requires_grad_()
        with weft.comm_debug() as comm:
            y = ours(given)
        assert [(row.collective, row.calls) for row in comm.rows] == [("all_reduce", 1)]
        with weft.comm_debug() as comm:
            y.sum().backward()
        assert [(row.collective, row.calls) for row in comm.rows] == [("all_reduce", 1)]

    weft.run_on_ranks(2, on_rank)


@pytest.mark.parametrize("sizes", [(24,), (7,), (2, 24, 3)])
def test_blocks_are_distributed_moved_and_joined(sizes):
    dim = len(sizes) // 2
    values = torch.arange(torch.Size(sizes).numel()).view(sizes).double()

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (3,))
        blocks = StridedShard(dim, blocks=[4, 1, 1])
        x = weft.distribute_tensor(values, mesh, [blocks])
        assert torch.equal(x.full_tensor(), values)
        own = [part.tensor_split(1)[0].chunk(3, dim) for part in values.split(cuts(sizes[dim]), dim)]
        own = [part[rank] for part in own if rank < len(part)]
        assert torch.equal(x.to_local(), torch.cat(own, dim) if own else values.narrow(dim, 0, 0))
        for other in (Replicate(), Shard(dim), StridedShard(dim, split_factor=2), StridedShard(dim, blocks=[1, 2])):
            moved = x.redistribute(placements=[other])
            assert moved.placements == (other,) and torch.equal(moved.full_tensor(), values)
            assert torch.equal(moved.redistribute(placements=[blocks]).to_local(), x.to_local())

    weft.run_on_ranks(3, on_rank)


def cuts(size):
    ends = [size * passed // 6 for passed in (4, 5, 6)]
    return [end - begin for begin, end in zip([0, *ends], ends)]


def test_operators_keep_blocks_or_say_what_they_gather():
    values = torch.randn(6, 24)

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        blocks = StridedShard(1, blocks=[4, 1, 1])
        x = weft.distribute_tensor(values, mesh, [blocks])
        with weft.strict():
            assert (x.sin() * 2 + x).placements == (blocks,)
            assert x.t().placements == (StridedShard(0, blocks=[4, 1, 1]),)
            assert x[:, :16].placements == (Shard(1),)
            assert x[:, 16:].placements == (StridedShard(1, split_factor=2),)
            assert x.view(6, 12, 2).placements == (blocks,)
            assert torch.cat([x[:, :16], x[:, 16:20], x[:, 20:]], 1).placements == (blocks,)
        for program in (
            lambda t: t[:, 3:17],
            lambda t: t[:, ::2],
            lambda t: t.view(6, 3, 8),
            lambda t: t.cumsum(1),
            lambda t: t.split([5, 19], 1)[1],
            lambda t: t.sort(1).values,
            lambda t: t @ t.t(),
            lambda t: t.sum(1),
            lambda t: t.flip(1),
        ):
            torch.testing.assert_close(program(x).full_tensor(), program(values))

    weft.run_on_ranks(2, on_rank)


def test_parts_that_ranks_cannot_divide_are_refused():
    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (3,))
        with pytest.raises(ValueError, match=r"every part must be divisible by the 3 ranks, but got \[8, 4, 4\]"):
            parallel(Attention(by_split), mesh)
        with pytest.raises(ValueError, match="heads must not be given too"):
            weft.parallelize_module(nn.Linear(12, 18), mesh, ColwiseParallel(parts=[3, 6], heads=9))
        with pytest.raises(ValueError, match="dim 0 of the weight must be divisible by 9"):
            weft.parallelize_module(nn.Linear(12, 19), mesh, ColwiseParallel(parts=[3, 6]))

    weft.run_on_ranks(3, on_rank)


def test_texts_parse_back():
    blocks = StridedShard(1, blocks=[8, 2, 2])
    assert str(blocks) == "SS(1,4:1:1)" and blocks == weft._C.parse_placement("SS(1,4:1:1)")
    assert blocks.blocks == (4, 1, 1) and repr(blocks) == "StridedShard(dim=1, blocks=4:1:1)"
    assert StridedShard(1, blocks=[3, 3]) == StridedShard(1, split_factor=2)
    for wrong in ([], [0, 1], [-1, 2]):
        with pytest.raises(ValueError, match="sizes of blocks that are at least 1"):
            StridedShard(0, blocks=wrong)
