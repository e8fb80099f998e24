"""Models compiled as one graph, on two processes: the losses, gradients and collectives of eager mode."""

import os
import sys
from pathlib import Path

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from weft import ColwiseParallel, Replicate, RowwiseParallel, Shard

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples/python"))
sys.path.insert(0, os.path.dirname(__file__))
import train  # noqa: E402
from compiled import assert_compiles_as_eager, assert_same, step  # noqa: E402


def cross_entropy(model):
    return lambda x, classes: train.loss_of(model(x).full_tensor(), classes.full_tensor())


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["", "sequence_parallel"])
@pytest.mark.parametrize("mesh", [{"tp": 2}, {"dp": 2, "tp": 1}], ids=str)
@pytest.mark.parametrize("name", train.EXAMPLES)
def test_an_example_is_one_graph(name, mesh, sequence_parallel):
    on = weft.init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))
    model = weft.parallelize_module(train.make_model(name), on, train.plan_file(name, sequence_parallel))
    batch = train.distribute_batch(train.EXAMPLES[name].batch(0), on)
    assert_compiles_as_eager(cross_entropy(model), batch, list(model.parameters()))


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 4, 3, stride=2)
        self.norm, self.head = nn.BatchNorm2d(8), nn.Linear(4, 5)

    def forward(self, x):
        x = F.max_pool2d(torch.relu(self.norm(self.first(x))), 2)
        return self.head(self.second(x).mean((2, 3)))


def test_a_convolutional_network_with_batch_norm_is_one_graph():
    mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    model = weft.distribute_module(ConvNet(), mesh)
    x = weft.distribute_tensor(torch.randn(4, 3, 8, 8), mesh, [Shard(0)])
    statistics = {name: value.clone() for name, value in model.named_buffers()}
    assert_compiles_as_eager(model, (x,), list(model.parameters()))
    results = []
    for run in (model, torch.compile(model, backend="aot_eager", fullgraph=True)):
        model.load_state_dict(statistics, strict=False)
        run(x)
        results.append([value.clone() for value in model.buffers()])
    assert_same(*results)
    assert not torch.equal(results[0][0].to_local(), next(iter(statistics.values())).to_local())


class Experts(nn.Module):
    """A mixture of experts, of which each token takes the best."""

    def __init__(self, experts=4, dim=8):
        super().__init__()
        self.router = nn.Linear(dim, experts, bias=False)
        self.up, self.down = (nn.Parameter(torch.randn(experts, dim, dim) / 3) for _ in range(2))

    def forward(self, x):
        weights = torch.softmax(self.router(x), -1)
        chosen = torch.where(weights == weights.amax(-1, keepdim=True), weights, 0)
        hidden = torch.relu(torch.einsum("td,edh->eth", x, self.up))
        return torch.einsum("eth,ehd,te->td", hidden, self.down, chosen)


def test_a_mixture_of_experts_is_one_graph():
    mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("ep",))
    model = Experts()
    model.up, model.down = (nn.Parameter(weft.distribute_tensor(p.detach(), mesh, [Shard(0)])) for p in (model.up, model.down))
    model.router.weight = nn.Parameter(weft.distribute_tensor(model.router.weight.detach(), mesh, [Replicate()]))
    x = weft.distribute_tensor(torch.randn(6, 8), mesh, [Replicate()])
    assert_compiles_as_eager(model, (x,), list(model.parameters()))


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


def parallel_mlp():
    mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    return mesh, weft.parallelize_module(MLP(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def counts_of(graph, ops):
    return sum(node.target in ops for node in graph.nodes)


MATMULS = (torch.ops.aten.addmm.default, torch.ops.aten.mm.default)
GATHERS = (torch.ops._c10d_functional.all_gather_into_tensor.default,)
SUMS = (torch.ops._c10d_functional.all_reduce.default, torch.ops._c10d_functional.reduce_scatter_tensor.default)


@pytest.mark.parametrize("rows", [Replicate(), Shard(0)], ids=str)
def test_backward_computes_again_what_a_checkpoint_did_not_keep(rows):
    mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    plan = {"up": ColwiseParallel(input_layouts=rows), "down": RowwiseParallel(output_layouts=rows, use_local_output=False)}
    model = weft.parallelize_module(MLP(), mesh, plan)
    x, parameters = weft.distribute_tensor(torch.randn(4, 8), mesh, [rows]), list(model.parameters())
    found = []
    for function in (model, lambda x: checkpoint(model, x, use_reentrant=False)):
        graphs = assert_compiles_as_eager(function, (x,), parameters, counts_collectives=function is model)
        found.append([[counts_of(graph, ops) for ops in (MATMULS, GATHERS, SUMS)] for graph in graphs.graphs])
    (forward, backward), (forward_again, backward_again) = found
    gathers = 1 if rows.is_shard() else 0
    assert forward == forward_again == [2, gathers, 1]
    # The gathered input and the product by `up`; the sum at the end is not needed again.
    assert [b - a for a, b in zip(backward, backward_again, strict=True)] == [1, gathers, 0]


def test_reduce_overhead():
    _, model = parallel_mlp()
    x, parameters = torch.randn(4, 8), list(model.parameters())
    want = step(model, (x,), parameters)
    got = step(torch.compile(model, mode="reduce-overhead", fullgraph=True), (x,), parameters)
    assert_same(got, want, 1e-5)
