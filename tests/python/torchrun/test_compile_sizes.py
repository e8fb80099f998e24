"""torch.compile over batches of many sizes, on two processes: as few compilations as plain torch, and the values of eager mode."""

import copy
import os
import sys

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F
from weft import ColwiseParallel, Replicate, RowwiseParallel, Shard

sys.path.insert(0, os.path.dirname(__file__))
from compiled import assert_same, step

DIM = 8
SIZES = (4, 6, 8, 10, 12, 7)
BACKENDS = ["eager", "aot_eager", "inductor"]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(DIM), nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def compilations(function, inputs, backend, parameters=(), tolerance=0.0):
    """How often the function is compiled up to each of the inputs. Its results and gradients are those of eager mode."""
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    compiled, counts = torch.compile(function, backend=backend, fullgraph=True), []
    for given in inputs:
        want = step(function, given, parameters)
        assert_same(step(compiled, given, parameters), want, tolerance if backend != "inductor" else 1e-4)
        counts.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
    return counts


def batches(sizes=SIZES, *shape):
    return [(torch.randn(size, *(shape or (DIM,))),) for size in sizes]


@pytest.mark.parametrize("backend", BACKENDS)
def test_replicated_batches_compile_as_often_as_plain_ones(mesh, backend):
    plain = Model()
    model = weft.parallelize_module(copy.deepcopy(plain), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    sizes = (*SIZES, 1, 2, 0)
    want = compilations(plain, batches(sizes), backend, list(plain.parameters()))
    assert want[:6] == [1, 2, 2, 2, 2, 2]
    assert compilations(model, batches(sizes), backend, list(model.parameters())) == want


@pytest.mark.parametrize("backend", BACKENDS)
def test_batches_of_a_rank_compile_as_often_as_plain_ones(mesh, backend):
    weight = weft.distribute_tensor(torch.randn(DIM, DIM), mesh, [Replicate()]).requires_grad_()

    def function(x):
        y = torch.relu(weft.from_local(x, mesh, [Shard(0)]) @ weight)
        return y.to_local(), y.mean().full_tensor(), y.redistribute(placements=[Shard(1)]).to_local().sum()

    assert compilations(function, batches(), backend, [weight]) == [1, 2, 2, 2, 2, 2]


def shards(mesh, sizes=SIZES, placement=None):
    return [(weft.distribute_tensor(torch.randn(size, DIM), mesh, [placement or Shard(0)]),) for size in sizes]


@pytest.mark.parametrize("backend", BACKENDS)
def test_distributed_batches_compile_anew_only_where_the_ranks_do_not_divide_them(mesh, backend):
    weight = weft.distribute_tensor(torch.randn(DIM, DIM), mesh, [Replicate()]).requires_grad_()

    def function(x):
        y = torch.relu(x @ weight)
        return y, y.mean(), y.sum(0), (y + 1).reshape(-1, 2, DIM // 2)

    given = shards(mesh, (*SIZES, 1, 0, 14))
    assert compilations(function, given, backend, [weight]) == [1, 2, 2, 2, 2, 3, 4, 5, 5]


@pytest.mark.parametrize("backend", BACKENDS)
def test_replicated_distributed_batches_compile_twice(mesh, backend):
    model = weft.parallelize_module(Model(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel(use_local_output=False)})

    def function(x):
        return model.down(F.gelu(model.up(x))).redistribute(placements=[Replicate()])

    assert compilations(function, shards(mesh, SIZES, Replicate()), backend, list(model.parameters())) == [1, 2, 2, 2, 2, 2]


def test_a_dim_that_is_marked_dynamic_compiles_once(mesh):
    given = shards(mesh, (8, 4, 6, 10))
    compiled = torch.compile(lambda x: (x * 2).sum(1), backend="aot_eager", fullgraph=True)
    torch._dynamo.utils.counters.clear()
    torch._dynamo.mark_dynamic(given[0][0], 0)
    for (x,) in given:
        assert torch.equal(compiled(x).full_tensor(), (x * 2).sum(1).full_tensor())
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def sliced(x):
    return x[:5] * 2, x[1:] * 2


def branched(x):
    return x.sum() if x.shape[0] > 8 else x * x.shape[0]


def sorted_rows(x):
    return x.sort(0).values, x.cumsum(0), x.topk(3, 0).values


def gathered(x):
    return x.t() @ x, x @ x.t(), F.pad(x, (0, 0, 1, 0))


def halves(x):
    return [half * 2 for half in x.chunk(2)], torch.cat([x, x.flip(0)])


@pytest.mark.parametrize("placement", [Shard(0), Replicate()], ids=str)
@pytest.mark.parametrize("function", [sliced, branched, sorted_rows, gathered, halves], ids=lambda f: f.__name__)
def test_functions_that_depend_on_the_size_are_those_of_eager_mode(mesh, function, placement):
    def flat(x):
        return torch.utils._pytree.tree_leaves(function(x))

    compilations(flat, shards(mesh, (4, 6, 8, 12, 3, 16), placement), "aot_eager", tolerance=1e-5)


def test_a_layout_that_depends_on_the_size_is_chosen_anew(mesh):
    """The smaller operand of the product is gathered."""
    weight = weft.distribute_tensor(torch.randn(DIM, 512), mesh, [Shard(1)])
    compilations(lambda x: x @ weight, shards(mesh, (4, 6, 8, 4096, 4)), "aot_eager")


def test_dropout_of_many_sizes_draws_as_eager_mode(mesh):
    weft.manual_seed(3)
    compiled = torch.compile(lambda x: F.dropout(x, 0.5), backend="aot_eager", fullgraph=True)
    for (x,) in shards(mesh, (4, 6, 8, 6)):
        state = weft.random_state()
        want, after = F.dropout(x, 0.5), weft.random_state()
        weft.set_random_state(state)
        assert torch.equal(compiled(x).to_local(), want.to_local()) and weft.random_state() == after


def test_the_number_of_collectives_stays_that_of_eager_mode(mesh):
    from compiled import Graphs

    model = weft.parallelize_module(Model(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    graphs = Graphs()
    compiled = torch.compile(model, backend=graphs.backend, fullgraph=True)
    counts = []
    for (x,) in batches((4, 6)):
        graphs.graphs.clear()
        compiled(x.requires_grad_()).sum().backward()
        counts.append(graphs.collectives()[0])
    assert counts[0] == counts[1] and sum(counts[0].values()) == 2
