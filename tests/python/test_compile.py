"""torch.compile of distributed tensors on one rank, on ranks that are threads, and without process groups."""

import subprocess
import sys

import pytest
import torch
import weft
from torch import nn
from weft import Shard

BACKENDS = ["eager", "aot_eager"]


@pytest.fixture(autouse=True)
def fresh_tracer():
    torch._dynamo.reset()


def one_rank_mesh():
    return weft.init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))


def function(x, w):
    y = torch.relu(x @ w.t())
    if y.shape[0] == 4:
        y = y + 1
    return y.sum(0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_of_distributed_tensors_is_compiled(backend):
    mesh = one_rank_mesh()
    x = weft.distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])
    w = nn.Parameter(weft.distribute_tensor(torch.randn(6, 4), mesh, [Shard(0)]))
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    for _ in range(2):
        y = compiled(x, w)
        assert weft.is_dtensor(y) and torch.equal(y.full_tensor(), function(x, w).full_tensor())
        y.sum().backward()
    assert w.grad.placements == (Shard(0),)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_function_compiled_for_plain_tensors_is_not_run_on_distributed_ones(backend):
    mesh = one_rank_mesh()
    compiled = torch.compile(function, backend=backend)
    x, w = torch.randn(4, 4), torch.randn(6, 4)
    assert torch.equal(compiled(x, w), function(x, w))
    y = compiled(weft.distribute_tensor(x, mesh, [Shard(0)]), weft.distribute_tensor(w, mesh, [Shard(0)]))
    assert weft.is_dtensor(y) and torch.equal(y.full_tensor(), function(x, w))
    assert torch.equal(compiled(x, w), function(x, w))


def test_a_module_with_distributed_parameters_is_compiled():
    mesh = one_rank_mesh()
    model = weft.distribute_module(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), mesh)
    x = weft.distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])
    expected = model(x).full_tensor()
    assert torch.equal(torch.compile(model, backend="aot_eager", fullgraph=True)(x).full_tensor(), expected)
    model.compile(backend="aot_eager")
    assert torch.equal(model(x).full_tensor(), expected)


@pytest.mark.parametrize("uses_local", [False, True])
def test_compiled_autograd_is_refused_with_the_reason(uses_local):
    mesh = one_rank_mesh()
    w = nn.Parameter(weft.distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)]))
    compiled = torch.compile(lambda x: (x @ w).sum(), backend="aot_eager", fullgraph=True)
    x = weft.distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])
    with torch._dynamo.compiled_autograd._enable(torch.compile(backend="aot_eager")):
        loss = (x @ w).to_local().sum() if uses_local else compiled(x)
        with pytest.raises(NotImplementedError, match="Leave torch._dynamo.config.compiled_autograd off"):
            loss.backward()
    compiled(x).backward()
    assert w.grad.placements == (Shard(0),)


def test_a_distributed_tensor_made_inside_runs_eagerly():
    mesh = one_rank_mesh()

    def program(x):
        doubled = x * 2
        y = weft.distribute_tensor(doubled, mesh, [Shard(0)])
        return (y + 1).full_tensor() * 3

    x = torch.randn(4)
    assert torch.equal(torch.compile(program, backend="aot_eager")(x), (x * 2 + 1) * 3)


def test_ranks_without_process_groups_are_refused_with_the_reason():
    def rank_program(rank):
        x = weft.zeros(4, device_mesh=weft.init_device_mesh("cpu", (2,)))
        with pytest.raises(torch._dynamo.exc.Unsupported, match="recorded by the names of process groups"):
            torch.compile(lambda t: t + 1, backend="eager", fullgraph=True)(x)

    weft.run_on_ranks(2, rank_program)


def test_ranks_as_threads_run_a_compiled_function():
    compiled = torch.compile(function, backend="aot_eager")

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = weft.ones(4, 4, device_mesh=mesh, placements=[Shard(0)])
        return compiled(x, weft.ones(6, 4, device_mesh=mesh, placements=[Shard(0)])).full_tensor()

    for y in weft.run_on_ranks(2, rank_program):
        assert torch.equal(y, function(torch.ones(4, 4), torch.ones(6, 4)))


def test_the_order_of_imports_does_not_matter():
    program = """
import torch, torch._dynamo, weft
mesh = weft.init_device_mesh("cpu", (1,))
assert weft.is_dtensor(torch.compile(lambda t: t + 1, backend="eager")(weft.zeros(2, device_mesh=mesh)))
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)


def test_importing_weft_does_not_import_the_tracer():
    program = "import sys, torch; before = set(sys.modules); import weft; print(*sorted(set(sys.modules) - before))"
    output = subprocess.run([sys.executable, "-c", program], check=True, timeout=100, capture_output=True, text=True).stdout
    added = output.split()
    assert "weft._C" in added
    for heavy in ("torch._dynamo", "torch.distributed.tensor", "torch.distributed.checkpoint", "IPython"):
        assert heavy not in added
