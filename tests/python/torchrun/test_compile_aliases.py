"""Compiled functions whose results share memory with their arguments or with each other, on two processes: kinds, values, layouts and
gradients of eager mode."""

import os
import sys

import pytest
import torch
import weft
from weft import Replicate, Shard

sys.path.insert(0, os.path.dirname(__file__))
from compiled import assert_same, step

BACKENDS = ["eager", "aot_eager", "inductor"]


PLAIN = {
    "from_local R": lambda x, mesh: weft.from_local(x, mesh, [Replicate()]),
    "from_local S": lambda x, mesh: weft.from_local(x, mesh, [Shard(0)]),
    "from_local of a view": lambda x, mesh: weft.from_local(x[1:], mesh, [Shard(1)]),
    "there and back": lambda x, mesh: weft.from_local(x, mesh, [Shard(0)]).to_local(),
    "a sum of terms": lambda x, mesh: weft.from_local(x, mesh, [Replicate()], grad_placements=[weft.Partial()]),
    "both": lambda x, mesh: (x, weft.from_local(x, mesh, [Shard(0)]), x * 2),
}
DISTRIBUTED = {
    "the argument": lambda x, mesh: x,
    "the argument twice": lambda x, mesh: (x, x),
    "a result twice": lambda x, mesh: [(y, y) for y in [x * 2]][0],
    "to_local": lambda x, mesh: x.to_local(),
    "full_tensor": lambda x, mesh: x.full_tensor(),
    "to_local of a view": lambda x, mesh: x[:, 1:].to_local(),
    "no redistribution": lambda x, mesh: x.redistribute(placements=x.placements),
    "redistributions there and back": lambda x, mesh: x.redistribute(placements=[Replicate()]).redistribute(placements=x.placements),
    "to_local and from_local": lambda x, mesh: weft.from_local(x.to_local(), mesh, x.placements),
    "rows": lambda x, mesh: x[1:],
    "columns": lambda x, mesh: x[:, 2:5],
    "halves": lambda x, mesh: x.chunk(2, 1),
    "a transposed view": lambda x, mesh: x.t(),
    "a merged view": lambda x, mesh: x.view(-1),
    "a detached one": lambda x, mesh: x.detach(),
    "views of a result": lambda x, mesh: [(y, y.t(), y[:, 1:]) for y in [x * 2]][0],
    "what it wraps": lambda x, mesh: (x.to_local(), x, x + 1),
}


def assert_as_eager(function, given, backend):
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    want = step(function, (given,))
    for _ in range(2):
        assert_same(step(compiled, (given,)), want, 1e-5 if backend == "inductor" else 0.0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PLAIN)
def test_results_of_a_plain_argument(mesh, name, backend):
    assert_as_eager(lambda x: PLAIN[name](x, mesh), torch.randn(4, 6), backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("placement", [Replicate(), Shard(0)], ids=str)
@pytest.mark.parametrize("name", DISTRIBUTED)
def test_results_of_a_distributed_argument(mesh, name, placement, backend):
    assert_as_eager(lambda x: DISTRIBUTED[name](x, mesh), weft.distribute_tensor(torch.randn(4, 6), mesh, [placement]), backend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_share_the_memory_of_arguments(mesh, backend):
    def function(x, y):
        return weft.from_local(x, mesh, [Shard(0)]), y.to_local(), y.t()

    x, y = torch.zeros(2, 2), weft.distribute_tensor(torch.zeros(2, 2), mesh, [Replicate()])
    made, local, view = torch.compile(function, backend=backend, fullgraph=True)(x, y)
    x.fill_(1)
    assert made.to_local().sum() == 4
    local[0, 1] = 1
    assert y.full_tensor()[0, 1] == 1 and view.full_tensor()[1, 0] == 1


def test_arguments_that_share_memory_and_are_written_to_are_refused(mesh):
    """By torch, which does so for all wrapped tensors. They are not taken for tensors with memory of their own."""

    def function(x, y):
        x.add_(1)
        return y * 2

    x = weft.distribute_tensor(torch.zeros(2, 2), mesh, [Replicate()])
    with pytest.raises(Exception, match="aliased inputs that are mutated"):
        torch.compile(function, backend="aot_eager", fullgraph=True)(x, x.view(4))
