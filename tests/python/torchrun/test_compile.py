"""torch.compile(fullgraph=True) of distributed tensors on two processes: the values, gradients and collectives of eager mode."""

import copy
import math
import os
import sys

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F
from weft import ColwiseParallel, Partial, Replicate, RowwiseParallel, SequenceParallel, Shard, _C

sys.path.insert(0, os.path.dirname(__file__))
from compiled import assert_compiles_as_eager, Graphs

DIM, HEADS, SEQUENCE, BATCH = 16, 4, 6, 2


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.q, self.k, self.v, self.o = (nn.Linear(DIM, DIM) for _ in range(4))
        self.mlp = MLP()

    def forward(self, x):
        y = self.norm1(x)
        q, k, v = (project(y).view(*x.shape[:2], -1, DIM // HEADS).transpose(1, 2) for project in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + self.o(mixed.reshape(*x.shape[:2], -1))
        return x + self.mlp(self.norm2(x))


MLP_PLAN = {"up": ColwiseParallel(), "down": RowwiseParallel()}
BLOCK_PLAN = {
    **dict.fromkeys("qkv", ColwiseParallel(use_local_output=False)),
    "o": RowwiseParallel(),
    "mlp.up": ColwiseParallel(),
    "mlp.down": RowwiseParallel(),
}
SEQUENCE_PLAN = {
    "norm1": SequenceParallel(),
    "norm2": SequenceParallel(),
    **dict.fromkeys("qkv", ColwiseParallel(input_layouts=Shard(1), use_local_output=False)),
    "o": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    "mlp.up": ColwiseParallel(input_layouts=Shard(1)),
    "mlp.down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
}


def expect_as_eager(model, x, **options):
    return assert_compiles_as_eager(model, (x,), list(model.parameters()), **options)


@pytest.mark.parametrize("size", [BATCH * 2, 3])
def test_an_mlp_gives_the_bits_and_collectives_of_eager_mode(mesh, size):
    model = weft.parallelize_module(MLP(), mesh, MLP_PLAN)
    expect_as_eager(model, torch.randn(size, DIM))


def test_a_decoder_block_gives_the_bits_and_collectives_of_eager_mode(mesh):
    model = weft.parallelize_module(Block(), mesh, BLOCK_PLAN)
    expect_as_eager(model, torch.randn(BATCH, SEQUENCE, DIM))


@pytest.mark.parametrize("length", [SEQUENCE, SEQUENCE - 1])
def test_sequence_parallel_gives_the_bits_and_collectives_of_eager_mode(mesh, length):
    model = weft.parallelize_module(Block(), mesh, SEQUENCE_PLAN)
    x = weft.distribute_tensor(torch.randn(BATCH, length, DIM), mesh, [Shard(1)])
    # Shards of different sizes are padded, so that more bytes are sent.
    expect_as_eager(model, x, counts_collectives=length % 2 == 0)


def test_inductor_compiles_a_block(mesh):
    model = weft.parallelize_module(Block(), mesh, SEQUENCE_PLAN)
    x = weft.distribute_tensor(torch.randn(BATCH, SEQUENCE, DIM), mesh, [Shard(1)])
    expect_as_eager(model, x, backends=("inductor",))


def test_a_module_without_gradients(mesh):
    model = weft.parallelize_module(Block(), mesh, BLOCK_PLAN)
    x = torch.randn(BATCH, SEQUENCE, DIM)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        assert torch.equal(compiled(x), model(x))


PLACEMENTS = [Replicate(), Shard(0), Shard(1), Partial(), Partial("avg"), Partial("max")]


def tensors_of_every_placement(mesh, shape):
    torch.manual_seed(mesh.get_rank())
    strided = [weft.StridedShard(0, split_factor=2)] if shape[0] % 4 == 0 else []
    for placement in PLACEMENTS + strided:
        own = torch.randn(_C.local_shape_and_offset(shape, mesh, [placement])[0])
        yield weft.from_local(own, mesh, [placement], shape=shape, stride=(shape[1], 1))


@pytest.mark.parametrize("shape", [(8, 8), (5, 3), (1, 1)], ids=str)
def test_a_tensor_of_every_placement_goes_in_and_out(mesh, shape):
    def function(xs):
        return [y for x in xs for y in (x * 2, torch.relu(x), x.sum(0))]

    xs = [x for x in tensors_of_every_placement(mesh, shape) if x.placements != (Partial("max"),)]
    results = []
    for run in (function, torch.compile(function, backend="aot_eager", fullgraph=True)):
        given = [x.clone().detach().requires_grad_() for x in xs]
        outputs = run(given)
        sum(output.full_tensor().square().sum() for output in outputs).backward()
        results.append([*outputs, *(x.grad for x in given)])
    for a, b in zip(*results, strict=True):
        assert a.placements == b.placements and torch.equal(a.to_local(), b.to_local())


@pytest.mark.parametrize("shape", [(8, 8), (5, 3), (1, 1)], ids=str)
def test_recorded_redistributions_give_the_bits_of_eager_mode(mesh, shape):
    xs = list(tensors_of_every_placement(mesh, shape))
    wanted = [[p] for p in PLACEMENTS[:4]]

    def function(xs):
        pairs = [(x, w) for x in xs for w in wanted]
        return [x.redistribute(placements=w) for x, w in pairs if not w[0].is_partial() or x.placements[0].is_replicate()]

    want, got = function(xs), torch.compile(function, backend="aot_eager", fullgraph=True)(xs)
    for a, b in zip(got, want, strict=True):
        assert _C.spec(a) == _C.spec(b) and torch.equal(a.to_local(), b.to_local())


def test_local_and_global_tensors_inside_of_the_graph(mesh):
    def function(x, w):
        shard = weft.from_local(x, mesh, [Shard(0)])
        y = shard @ w
        if isinstance(y, weft.DTensor) and y.placements[0].is_shard():
            y = y.redistribute(mesh, [Shard(1)])
        return y.to_local() * 2, y.full_tensor()

    x = torch.randn(2, DIM, requires_grad=True)
    w = weft.distribute_tensor(torch.randn(DIM, DIM), mesh, [Replicate()])
    results = []
    for run in (function, torch.compile(function, backend="aot_eager", fullgraph=True)):
        x.grad = None
        outputs = run(x, w)
        sum(output.sum() for output in outputs).backward()
        results.append([*outputs, x.grad])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_writes_to_inputs_are_seen(mesh):
    def function(x):
        x.add_(1)
        return x * 2

    x = weft.distribute_tensor(torch.zeros(4, 4), mesh, [Shard(0)])
    row = x[0]  # a copy where the rows are sharded
    version = x._version
    y = torch.compile(function, backend="aot_eager", fullgraph=True)(x)
    assert torch.equal(x.full_tensor(), torch.ones(4, 4)) and torch.equal(y.full_tensor(), 2 * torch.ones(4, 4))
    assert x._version > version
    with pytest.raises(ValueError, match="has changed since"):
        row.sum()


def test_batch_norm_updates_its_statistics(mesh):
    model = weft.distribute_module(nn.BatchNorm1d(3), mesh)
    other = copy.deepcopy(model)
    x = weft.distribute_tensor(torch.randn(8, 3), mesh, [Shard(0)])
    want, got = model(x), torch.compile(other, backend="aot_eager", fullgraph=True)(x)
    assert torch.equal(got.to_local(), want.to_local())
    for a, b in zip(other.buffers(), model.buffers(), strict=True):
        assert torch.equal(a.full_tensor(), b.full_tensor())


def test_a_row_sharded_embedding(mesh):
    model = weft.parallelize_module(nn.Embedding(7, 4), mesh, RowwiseParallel(input_layouts=Replicate()))
    tokens = torch.tensor([[0, 6, 3], [5, 5, 1]])
    results = []
    for run in (model, torch.compile(model, backend="aot_eager", fullgraph=True)):
        model.zero_grad()
        y = run(tokens)
        y.square().sum().backward()
        results.append([y, model.weight.grad.to_local()])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_collectives_over_two_mesh_dims(mesh):
    both = weft.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))

    def function(x):
        return x.redistribute(placements=[Replicate(), Replicate()])

    x = weft.distribute_tensor(torch.randn(4, 4), both, [Shard(0), Shard(0)])
    got = torch.compile(function, backend="aot_eager", fullgraph=True)(x)
    assert torch.equal(got.to_local(), function(x).to_local()) and math.prod(got.shape) == 16


def test_convolutions_of_sharded_images_exchange_halos(mesh):
    x, w = torch.arange(48.0).view(2, 2, 12) % 5, torch.arange(18.0).view(3, 2, 3) % 3
    results = []
    for run in (F.conv1d, torch.compile(F.conv1d, backend="aot_eager", fullgraph=True)):
        image = weft.distribute_tensor(x, mesh, [Shard(2)]).requires_grad_()
        weight = weft.distribute_tensor(w, mesh, [Replicate()]).requires_grad_()
        y = run(image, weight, padding=1)
        y.square().sum().backward()
        results.append([y, image.grad, weight.grad])
    for a, b in zip(*results, strict=True):
        assert a.placements == b.placements and torch.equal(a.full_tensor(), b.full_tensor())


def test_one_hot_of_a_given_number_of_classes(mesh):
    index = torch.tensor([0, 3, 1, 2])
    got = torch.compile(lambda x: F.one_hot(x, 4) * 2, backend="aot_eager", fullgraph=True)(
        weft.distribute_tensor(index, mesh, [Shard(0)])
    )
    assert got.placements == (Shard(0),) and torch.equal(got.full_tensor(), F.one_hot(index, 4) * 2)
