"""torch.compile over batches of many sizes, on two processes: as few compilations as plain torch, and the values of eager mode."""

import copy
import gc
import os
import sys
import threading
import weakref

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


@pytest.mark.parametrize("is_distributed", [False, True])
def test_the_tensors_of_the_first_calls_are_not_kept(mesh, is_distributed):
    weight = weft.distribute_tensor(torch.randn(DIM, DIM), mesh, [Replicate()])

    def function(x):
        return (x if is_distributed else weft.from_local(x, mesh, [Shard(0)])) @ weight

    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    kept = []
    for (x,) in shards(mesh, (4, 6, 8)) if is_distributed else batches((4, 6, 8)):
        compiled(x)
        kept.append(weakref.ref(x))
        del x
    gc.collect()
    assert [each() for each in kept] == [None] * 3


def test_an_error_of_the_other_sizes_in_backward_makes_the_sizes_constants(mesh):
    from weft._trace import sized_run

    differentiate = sized_run.SizedRun.differentiate
    failed = []

    def failing(run, gradients):
        if any(size not in (4, 6) for size in run.sizes.values()):
            failed.append(run.sizes)
            raise RuntimeError("an error for these sizes alone")
        return differentiate(run, gradients)

    given = batches((4, 6))
    sized_run.SizedRun.differentiate = failing
    try:
        compilations(lambda x: weft.from_local(x, mesh, [Shard(0)]).relu().sum().full_tensor(), given, "aot_eager")
    finally:
        sized_run.SizedRun.differentiate = differentiate
    assert failed


def test_runs_for_sizes_share_no_tracer(mesh):
    """Each thread has its own, as it may ask a guard while another one compiles."""
    from weft._trace.sized_run import SizedRun

    runs = []

    def run():
        runs.append(SizedRun(lambda leaves: torch.ones(2) * 2, [], {}, False, {}))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert runs[0].outputs[0].fake_mode is not runs[1].outputs[0].fake_mode


@pytest.mark.parametrize("backend", BACKENDS)
def test_plain_batches_of_a_distributed_module_compile_twice(mesh, backend):
    model = weft.distribute_module(nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, DIM)), mesh)

    def function(x):
        return model(x).full_tensor()

    assert compilations(function, batches(), backend, list(model.parameters())) == [1, 2, 2, 2, 2, 2]


@pytest.mark.parametrize("backend", BACKENDS)
def test_plain_masks_in_a_scope_compile_twice(mesh, backend):
    """Backward multiplies by the mask again."""

    def function(x, mask):
        with weft.replicate_plain():
            y = torch.relu(x * mask)
            return y.masked_fill(mask.bool(), 1.0) * 2

    given = [(x, torch.ones(x.shape[0], 1)) for (x,) in shards(mesh, SIZES[:5], Replicate())]
    assert compilations(function, given, backend) == [1, 2, 2, 2, 2]


class Positions(nn.Module):
    """Embeds tokens and plain position ids, as models of transformers do."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions, self.up, self.down = (
            nn.Embedding(16, DIM),
            nn.Embedding(64, DIM),
            nn.Linear(DIM, 4 * DIM),
            nn.Linear(4 * DIM, DIM),
        )

    def forward(self, ids):
        positions = torch.arange(ids.shape[1])[None]
        mask = torch.ones(ids.shape[1], ids.shape[1]).tril().bool()
        x = self.tokens(ids) + self.positions(positions)
        scores = (x @ x.transpose(1, 2)).masked_fill(~mask, -1e9).softmax(-1)
        return self.down(F.gelu(self.up(scores @ x)))


def test_plain_ids_and_positions_of_many_lengths_compile_twice(mesh):
    model = weft.parallelize_module(
        Positions(),
        mesh,
        {
            "tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Replicate(), use_local_output=False),
            "up": ColwiseParallel(use_local_output=False),
            "down": RowwiseParallel(use_local_output=False),
        },
    )

    def function(ids):
        return model(ids).full_tensor()

    given = [(torch.randint(0, 16, (2, length)),) for length in (4, 6, 8, 10, 12)]
    assert compilations(function, given, "aot_eager", list(model.parameters()), tolerance=1e-6) == [1, 2, 2, 2, 2]
