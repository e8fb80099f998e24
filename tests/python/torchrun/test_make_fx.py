"""make_fx of training steps of distributed tensors on two processes: the graph does what eager mode does, bit by bit."""

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

import weft
from weft import ColwiseParallel, Replicate, RowwiseParallel, Shard

DIM = 16


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        return self.down(F.gelu(self.up(self.norm(x))))


def parallel_model(mesh):
    torch.manual_seed(0)
    plan = {"up": ColwiseParallel(use_local_output=False), "down": RowwiseParallel(use_local_output=False)}
    return weft.parallelize_module(MLP(), mesh, plan)


def data_parallel_model(mesh):
    torch.manual_seed(0)
    return weft.distribute_module(MLP(), mesh)


def batch(mesh, placement):
    torch.manual_seed(1)
    return weft.distribute_tensor(torch.randn(6, DIM), mesh, [placement])


def local(tensor):
    return tensor.to_local().detach().clone() if weft.is_dtensor(tensor) else tensor.detach().clone()


def locals_of(named):
    return {name: local(tensor) for name, tensor in named.items()}


def collectives(graph_module):
    names = [str(node.target) for node in graph_module.graph.nodes if "_c10d_functional" in str(node.target)]
    return sorted(name.split(".")[1] for name in names if "wait_tensor" not in name)


@pytest.mark.parametrize("make, placement, expected", [(parallel_model, Replicate(), 2), (data_parallel_model, Shard(0), 6)])
def test_a_functional_step(mesh, make, placement, expected):
    model = make(mesh)
    params, x = dict(model.named_parameters()), batch(mesh, placement)

    def step(params, x):
        loss = torch.func.functional_call(model, params, (x,)).square().mean()
        gradients = torch.autograd.grad(loss, list(params.values()))
        return loss, {name: p - 0.1 * g for (name, p), g in zip(params.items(), gradients)}

    graph = make_fx(step)(params, x)
    loss, new = graph(locals_of(params), local(x))
    wanted_loss, wanted = step(params, x)
    assert len(collectives(graph)) == expected  # tp: one each way; dp: one per gradient
    outputs = [wanted_loss, *wanted.values()]
    assert graph.weft_layouts.outputs == [weft.spec(t) for t in outputs]
    assert all(torch.equal(a, b.to_local()) for a, b in zip([loss, *new.values()], outputs, strict=True))


@pytest.mark.parametrize("make, placement", [(parallel_model, Replicate()), (data_parallel_model, Shard(0))])
def test_a_step_with_backward_clipping_and_an_optimizer_writes_to_parameters(mesh, make, placement):
    model, x = make(mesh), batch(mesh, placement)
    params = dict(model.named_parameters())
    state = {
        name: {"step": torch.zeros(()), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        for name, p in params.items()
    }

    def step(params, state, x):
        optimizer = torch.optim.AdamW(list(params.values()), lr=0.1, fused=True)
        for name, p in params.items():
            optimizer.state[p] = state[name]
        loss = torch.func.functional_call(model, params, (x,)).square().mean()
        loss.backward()
        nn.utils.clip_grad_norm_(params.values(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    given = locals_of(params), {name: locals_of(each) for name, each in state.items()}
    graph = make_fx(step)(params, state, x)
    assert all(torch.equal(given[0][name], p.to_local()) for name, p in params.items())  # tracing writes to nothing
    for _ in range(3):
        loss = graph(*given, local(x))
        assert torch.equal(loss, step(params, state, x).to_local())
        for name, p in params.items():
            assert torch.equal(given[0][name], p.to_local())
            assert torch.equal(given[1][name]["exp_avg_sq"], state[name]["exp_avg_sq"].to_local())
            assert given[1][name]["step"] == state[name]["step"]


def test_what_cannot_be_traced_is_told(mesh):
    x = batch(mesh, Shard(0))
    with pytest.raises(ValueError, match='below autograd, but got tracing_mode="symbolic". Leave it out.'):
        make_fx(lambda x: x.sum(), tracing_mode="symbolic")(x)
    with pytest.raises(ValueError, match="but got pre_dispatch=True"):
        make_fx(lambda x: x.sum(), pre_dispatch=True)(x)
