"""Models compiled as one graph, on two processes: the losses, gradients and collectives of eager mode."""

import copy
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
import train  # noqa: E402


@pytest.fixture(autouse=True)
def fresh_tracer():
    torch._dynamo.reset()


def local(tensor):
    return tensor.to_local() if weft.is_dtensor(tensor) else tensor


def step(model, loss_of, *batch):
    """The loss and the gradients of parameters, plain."""
    model.zero_grad()
    loss = loss_of(model, *batch)
    loss.backward()
    return [local(loss.detach()), *(local(p.grad) for p in model.parameters() if p.grad is not None)]


def expect_as_eager(model, loss_of, *batch, backend="aot_eager"):
    want = step(model, loss_of, *batch)
    compiled = torch.compile(loss_of, backend=backend, fullgraph=True)
    for _ in range(2):
        got = step(model, compiled, *batch)
        assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["", "sequence_parallel"])
@pytest.mark.parametrize("mesh", [{"tp": 2}, {"dp": 2, "tp": 1}], ids=str)
@pytest.mark.parametrize("name", train.EXAMPLES)
def test_an_example_is_one_graph(name, mesh, sequence_parallel):
    on = weft.init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))
    model = weft.parallelize_module(train.make_model(name), on, train.plan_file(name, sequence_parallel))
    batch = train.distribute_batch(train.EXAMPLES[name].batch(0), on)

    def loss_of(model, x, classes):
        return train.loss_of(model(x).full_tensor(), classes.full_tensor())

    expect_as_eager(model, loss_of, *batch)


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
    other = copy.deepcopy(model)
    x = weft.distribute_tensor(torch.randn(4, 3, 8, 8), mesh, [Shard(0)])

    def loss_of(model, x):
        return model(x).square().mean()

    want = step(model, loss_of, x)
    got = step(other, torch.compile(loss_of, backend="aot_eager", fullgraph=True), x)
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))
    assert all(torch.equal(local(a), local(b)) for a, b in zip(model.buffers(), other.buffers(), strict=True))


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
    expect_as_eager(model, lambda model, x: model(x).square().sum().full_tensor(), x)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


def parallel_mlp():
    mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    return mesh, weft.parallelize_module(MLP(), mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def test_recomputed_activations_are_in_the_graph():
    _, model = parallel_mlp()
    expect_as_eager(model, lambda model, x: checkpoint(model, x, use_reentrant=False).square().sum(), torch.randn(4, 8))


def test_reduce_overhead():
    _, model = parallel_mlp()
    x = torch.randn(4, 8)
    want = step(model, lambda model, x: model(x).square().sum(), x)
    got = step(model, torch.compile(lambda model, x: model(x).square().sum(), mode="reduce-overhead", fullgraph=True), x)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
