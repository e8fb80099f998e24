"""torch.compile(fullgraph=True) of distributed tensors on two processes: the values, gradients and collectives of eager mode."""

import copy
import math

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F
from torch._dynamo.backends.common import aot_autograd
from weft import ColwiseParallel, Partial, Replicate, RowwiseParallel, SequenceParallel, Shard, _C, _groups

DIM, HEADS, SEQUENCE, BATCH = 16, 4, 6, 2


@pytest.fixture(autouse=True)
def fresh_tracer():
    torch._dynamo.reset()


@pytest.fixture(scope="module")
def mesh():
    return weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))


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


def local(tensor):
    return tensor.to_local() if weft.is_dtensor(tensor) else tensor


def bytes_of(node):
    return node.meta["val"].numel() * node.meta["val"].element_size()


class Graphs:
    """A backend that runs what AOTAutograd records, and keeps it."""

    def __init__(self):
        self.graphs = []
        self.backend = aot_autograd(fw_compiler=self.keep, bw_compiler=self.keep)

    def keep(self, graph_module, inputs):
        self.graphs.append(graph_module.graph)
        return graph_module

    def collectives(self):
        """Sorted (collective, bytes that a rank receives) of two ranks."""
        found = []
        for node in (node for graph in self.graphs for node in graph.nodes):
            name = getattr(node.target, "__name__", "").split(".")[0]
            if name == "all_reduce" or name == "all_gather_into_tensor":
                found.append((name.removesuffix("_into_tensor"), bytes_of(node.args[0])))
            elif name == "reduce_scatter_tensor":
                found.append(("reduce_scatter", bytes_of(node.args[0]) // 2))
            elif name == "all_to_all_single":
                found.append(("all_to_all", bytes_of(node) // 2))
        return sorted(found)


def eager_collectives(run):
    """Runs a function; returns its result and its collectives, as above."""
    counter = _C.CommCounter()
    counter.attach(_groups.current_world())
    try:
        result = run()
    finally:
        counter.detach()
    rows = [row for row in counter.rows() for _ in range(row.calls)]
    return result, sorted((row.collective, row.bytes // row.calls) for row in rows)


def step(model, function, x):
    model.zero_grad()
    x = x.clone().detach().requires_grad_()
    y = function(x)
    y.square().sum().backward()
    return [y.detach(), x.grad, *(p.grad for p in model.parameters())]


def expect_as_eager(model, x):
    """The compiled model gives bit for bit what the model gives, with the same collectives; what is left to the hooks of
    parameters counts as the compiled model's."""
    want, sent = eager_collectives(lambda: step(model, model, x))
    graphs = Graphs()
    compiled = torch.compile(model, backend=graphs.backend, fullgraph=True)
    for _ in range(2):
        got, left = eager_collectives(lambda: step(model, compiled, x))
        for a, b in zip(got, want, strict=True):
            assert weft.is_dtensor(a) == weft.is_dtensor(b) and torch.equal(local(a), local(b))
            assert not weft.is_dtensor(a) or a.placements == b.placements
    assert sorted(graphs.collectives() + left) == sent
    return graphs


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
    if length % 2 == 0:
        expect_as_eager(model, x)
        return
    # Shards of different sizes are padded, so that more bytes are sent.
    want = step(model, model, x)
    got = step(model, torch.compile(model, backend="aot_eager", fullgraph=True), x)
    assert all(torch.equal(local(a), local(b)) for a, b in zip(got, want, strict=True))


def test_inductor_compiles_a_block(mesh):
    model = weft.parallelize_module(Block(), mesh, SEQUENCE_PLAN)
    x = weft.distribute_tensor(torch.randn(BATCH, SEQUENCE, DIM), mesh, [Shard(1)])
    want = step(model, model, x)
    got = step(model, torch.compile(model, fullgraph=True), x)
    for a, b in zip(got, want, strict=True):
        assert a.placements == b.placements
        torch.testing.assert_close(local(a), local(b), rtol=1e-5, atol=1e-5)


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


def count_compilations(function):
    graphs = Graphs()
    return torch.compile(function, backend=graphs.backend, fullgraph=True), graphs.graphs


def test_another_layout_compiles_again_and_the_same_does_not(mesh):
    compiled, graphs = count_compilations(lambda x: x + 1)
    x = torch.randn(4, 4)
    for placement, expected in [(Shard(0), 1), (Shard(0), 1), (Shard(1), 2), (Replicate(), 3), (Shard(0), 3), (Partial(), 4)]:
        from_placement = Replicate() if placement.is_partial() else placement
        y = compiled(weft.distribute_tensor(x, mesh, [from_placement]).redistribute(placements=[placement]))
        assert torch.equal(y.full_tensor(), x + 1)
        assert len(graphs) == expected


def test_another_mesh_compiles_again(mesh):
    compiled, graphs = count_compilations(lambda x: x.redistribute(placements=[Replicate()]))
    other = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    x = torch.randn(4)
    for each, expected in [(mesh, 1), (other, 2), (mesh, 2)]:
        assert torch.equal(compiled(weft.distribute_tensor(x, each, [Shard(0)])).to_local(), x)
        assert len(graphs) == expected


def test_a_scope_compiles_again(mesh):
    compiled, graphs = count_compilations(lambda x, mask: x * mask)
    x, mask = weft.distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)]), torch.ones(4)
    with weft.replicate_plain():
        assert torch.equal(compiled(x, mask).to_local(), x.to_local())
    with pytest.raises(Exception, match="distributed and plain tensors cannot be mixed"):
        compiled(x, mask)
    with weft.replicate_plain():
        compiled(x, mask)
    assert len(graphs) == 1


def test_a_gradient_of_another_layout_is_redistributed(mesh):
    w = nn.Parameter(weft.distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)]))
    x = torch.arange(16.0).view(4, 4)  # sums that are exact in any order
    gradients = []
    for run in (torch.mm, torch.compile(torch.mm, backend="aot_eager", fullgraph=True)):
        w.grad = None
        y = run(w, weft.distribute_tensor(x, mesh, [Replicate()]))
        y.backward(weft.distribute_tensor(torch.ones(4, 4), mesh, [Shard(1)]))
        gradients.append(w.grad)
    assert gradients[0].placements == gradients[1].placements and torch.equal(*(g.to_local() for g in gradients))


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


def test_random_numbers_are_refused_and_not_recorded(mesh):
    x = weft.distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])
    with pytest.raises(Exception, match="random numbers of a distributed tensor are required outside of compiled code"):
        torch.compile(lambda x: F.dropout(x, 0.5), backend="aot_eager", fullgraph=True)(x)


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


def test_a_flattened_tensor_is_rebuilt(mesh):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from weft._tracing import TracedTensor

    for placement, size in [(Replicate(), 4), (Shard(0), 4), (Shard(0), 5), (Shard(1), 1), (Partial(), 3), (Partial("max"), 3)]:
        own = _C.local_shape_and_offset((size, 4), mesh, [placement])[0]
        x = weft.from_local(torch.randn(own), mesh, [placement], shape=(size, 4), stride=(4, 1))
        fake = FakeTensorMode().from_tensor(x)
        assert type(fake) is TracedTensor and fake.shape == x.shape and fake.placements == x.placements
        names, wrapped = fake.__tensor_flatten__()
        assert names == ["_local_tensor"] and fake._local_tensor.shape == own
        again = TracedTensor.__tensor_unflatten__({"_local_tensor": fake._local_tensor}, wrapped, fake.shape, fake.stride())
        assert type(again) is TracedTensor and _C.spec(again) == _C.spec(x)
        real = TracedTensor.__tensor_unflatten__({"_local_tensor": x.to_local()}, wrapped, fake.shape, fake.stride())
        assert type(real) is torch.Tensor and torch.equal(real.to_local(), x.to_local())
        assert not any(p.is_partial() for p in fake.__coerce_tangent_metadata__().placements)


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
