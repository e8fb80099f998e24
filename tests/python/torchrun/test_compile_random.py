"""Random numbers of distributed tensors in compiled code, on two processes: those of eager mode."""

import os
import sys

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from weft import Replicate, Shard

sys.path.insert(0, os.path.dirname(__file__))
from compiled import assert_same, Graphs, step

CALL = torch.ops.weft.random_call.default
NUMBERS = torch.ops.weft.random_numbers.default


def expect_as_eager(function, inputs, parameters=(), backends=("eager", "graphs")):
    """Three steps draw the numbers of three steps in eager mode, and leave the same random state."""
    weft.manual_seed(7)
    want = [step(function, inputs, parameters) for _ in range(3)]
    state = weft.random_state()
    assert not torch.equal(want[0][0].to_local(), want[1][0].to_local())
    graphs = Graphs()
    for backend in backends:
        torch._dynamo.reset()
        weft.manual_seed(7)
        compiled = torch.compile(function, backend=graphs.backend if backend == "graphs" else backend, fullgraph=True)
        for each in want:
            assert_same(step(compiled, inputs, parameters), each, 1e-5 if backend == "inductor" else 0.0)
        assert weft.random_state() == state
    return graphs


def two_layers(x):
    return F.dropout(torch.relu(F.dropout(x, 0.3)) * x, 0.5)


@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Replicate()], ids=str)
def test_dropouts_draw_the_numbers_of_eager_mode(mesh, placement):
    x = weft.distribute_tensor(torch.randn(6, 5), mesh, [placement])
    backends = ("eager", "graphs", "inductor") if placement.is_shard(1) else ("eager", "graphs")
    graphs = expect_as_eager(two_layers, (x,), backends=backends)
    assert graphs.count(CALL) == 2


def test_dropouts_of_two_mesh_dims():
    both = weft.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    x = weft.distribute_tensor(torch.randn(4, 6), both, [Shard(0), Shard(1)])
    expect_as_eager(two_layers, (x,))


def test_an_empty_shard_takes_its_number(mesh):
    x = weft.distribute_tensor(torch.randn(1, 3), mesh, [Shard(0)])
    y = weft.distribute_tensor(torch.randn(4, 3), mesh, [Shard(0)])

    def function(x, y):
        return F.dropout(y, 0.5), F.dropout(x, 0.5), F.dropout(y, 0.5)

    weft.manual_seed(7)
    want = function(x, y)
    weft.manual_seed(7)
    assert_same(torch.compile(function, backend="aot_eager", fullgraph=True)(x, y), want)
    assert weft.random_state() == (7, 3)


@pytest.mark.parametrize(
    "draw",
    [
        torch.rand_like,
        torch.randn_like,
        lambda x: torch.randint_like(x, 10),
        lambda x: torch.bernoulli(torch.sigmoid(x)),
        lambda x: F.alpha_dropout(x, 0.3, training=True),
        lambda x: F.rrelu(x, training=True),
        lambda x: torch.normal(x, x.abs()),
        lambda x: x.clone().exponential_(2.0),
        lambda x: F.gumbel_softmax(x),
        lambda x: torch.multinomial(x.exp(), 3),
        lambda x: torch.multinomial(x.exp(), 6, replacement=True),
    ],
    ids=["rand", "randn", "randint", "bernoulli", "alpha_dropout", "rrelu", "normal", "exponential", "gumbel", "multinomial", "replaced"],
)
def test_other_draws(mesh, draw):
    x = weft.distribute_tensor(torch.randn(4, 6), mesh, [Shard(0)])
    expect_as_eager(lambda x: draw(x) * x.sum(), (x,))


def test_probabilities_are_checked_when_the_program_runs(mesh):
    compiled = torch.compile(lambda p: torch.bernoulli(p), backend="aot_eager", fullgraph=True)
    p = torch.full((4,), 0.5)
    compiled(weft.distribute_tensor(p, mesh, [Shard(0)]))
    p[0] = 2  # on one rank; both raise
    with pytest.raises(RuntimeError, match="probabilities in"):
        compiled(weft.distribute_tensor(p, mesh, [Shard(0)]))


@pytest.mark.parametrize("backends", [("eager", "graphs"), ("inductor",)], ids=["", "inductor"])
def test_attention_with_dropout(mesh, backends):
    q, k, v = (weft.distribute_tensor(torch.randn(2, 4, 6, 8), mesh, [Shard(1)]) for _ in range(3))
    expect_as_eager(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, dropout_p=0.4), (q, k, v), backends=backends)


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(6, 8), nn.Linear(8, 6)
        self.dropout = nn.Dropout(0.4)

    def forward(self, x):
        return self.dropout(self.down(self.dropout(torch.relu(self.up(x)))))


@pytest.mark.parametrize("use_reentrant", [False, True], ids=["", "reentrant"])
@pytest.mark.parametrize("backends", [("eager", "graphs"), ("inductor",)], ids=["", "inductor"])
def test_recomputed_dropouts_have_the_mask_of_forward(mesh, use_reentrant, backends):
    model = weft.distribute_module(Dropped(), mesh)
    x = weft.distribute_tensor(torch.randn(4, 6), mesh, [Shard(0)])

    def function(x):
        return F.dropout(checkpoint(model, x, use_reentrant=use_reentrant), 0.2)

    graphs = expect_as_eager(function, (x,), list(model.parameters()), backends)
    if "graphs" in backends:
        forward, backward = graphs.graphs
        count = lambda graph, op: len(graph.find_nodes(op="call_function", target=op))  # noqa: E731
        assert (count(forward, CALL), count(backward, CALL)) == (3, 0)
        assert count(forward, NUMBERS) == 3 and count(backward, NUMBERS) >= 1


def test_two_compiled_regions_and_eager_draws_in_turn(mesh):
    x = weft.distribute_tensor(torch.randn(4, 6), mesh, [Shard(0)])
    compiled = torch.compile(two_layers, backend="aot_eager", fullgraph=True)

    def program(function):
        weft.manual_seed(3)
        return [function(x), F.dropout(x, 0.5), function(x), function(x), F.dropout(x, 0.1)]

    assert_same(program(compiled), program(two_layers))


def test_a_function_of_plain_tensors_that_draws(mesh):
    def function(x):
        return F.dropout(weft.from_local(x, mesh, [Shard(0)]), 0.5).to_local()

    x = torch.randn(3, 4)
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    results = []
    for run in (function, compiled):
        weft.manual_seed(5)
        results.append([run(x), run(x)])
    assert_same(*results)
    assert not torch.equal(*results[1])


def test_nothing_is_drawn_while_tracing(mesh):
    x = weft.distribute_tensor(torch.randn(4, 6), mesh, [Shard(0)])
    seed, calls = weft.random_state()
    torch.compile(two_layers, backend=lambda graph, inputs: graph.forward, fullgraph=True)(x)
    assert weft.random_state() == (seed, calls + 2)


def test_what_cannot_be_recorded_is_refused(mesh):
    from torch.fx.experimental.proxy_tensor import make_fx

    x = weft.distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])
    with pytest.raises(NotImplementedError, match="are required outside of compiled code"):
        make_fx(lambda x: weft.from_local(x, mesh, [Shard(0)]).bernoulli(0.5).to_local(), tracing_mode="fake")(torch.randn(2, 2))
    with pytest.raises(Exception, match="are required outside of compiled code"):
        torch.compile(lambda x: torch.poisson(x.exp()), backend="aot_eager", fullgraph=True)(x)
