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


# What is written to after forward, by a function of the argument and the results.
WRITES = {
    "a view, by its argument": (lambda x, mesh: x[:, 1:], lambda x, y: x.mul_(2)),
    "a view": (lambda x, mesh: x[:, 1:], lambda x, y: y.mul_(2)),
    "a transposed view": (lambda x, mesh: x.t(), lambda x, y: y.mul_(2)),
    "one of two views": (lambda x, mesh: x.chunk(2, 1), lambda x, y: y[0].mul_(2)),
    "a local tensor": (lambda x, mesh: x.to_local(), lambda x, y: y.mul_(2)),
    "a local view": (lambda x, mesh: x.to_local()[:, 1:], lambda x, y: y.mul_(2)),
    "a local tensor, by its argument": (lambda x, mesh: x.to_local(), lambda x, y: x.mul_(2)),
    "another layout of the memory": (lambda x, mesh: weft.from_local(x.to_local(), mesh, x.placements), lambda x, y: y.mul_(2)),
    "a result, by a view of it": (lambda x, mesh: [(y, y.t()) for y in [x * 2]][0], lambda x, y: y[1].mul_(2)),
    "a result, by its local tensor": (lambda x, mesh: [(y, y.to_local()) for y in [x * 2]][0], lambda x, y: y[1].mul_(2)),
    "a result that backward needs": (lambda x, mesh: x.exp(), lambda x, y: y.mul_(2)),
    "an argument that backward needs": (lambda x, mesh: x * x, lambda x, y: x.mul_(2)),
}


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("placement", [Replicate(), Shard(0)], ids=str)
@pytest.mark.parametrize("name", WRITES)
def test_autograd_notices_what_is_written_to_shared_memory(mesh, name, placement, backend):
    """Here eager mode raises too, as what backward needs is gone. Where it could go on, as after a write that is recorded, the
    compiled function raises."""
    function, write = WRITES[name]
    weight = weft.distribute_tensor(torch.randn(4, 6), mesh, [placement]).requires_grad_()
    for compiled in (function, torch.compile(lambda x: function(x, mesh), backend=backend, fullgraph=True)):
        x = weight * 1
        results = function(x, mesh) if compiled is function else compiled(x)
        tensors = [results] if isinstance(results, torch.Tensor) else list(results)
        squares = [(y.full_tensor() if weft.is_dtensor(y) else y).sum() if "needs" in name else (y * y) for y in (x, *tensors)]
        with torch.no_grad():
            write(x, results)
        with pytest.raises(RuntimeError, match="modified (by an )?inplace"):
            sum((z.full_tensor() if weft.is_dtensor(z) else z).sum() for z in squares).backward()


@pytest.mark.parametrize("write_to", ["argument", "result"])
@pytest.mark.parametrize("name", ["a view", "a local tensor", "one of two views", "another layout of the memory"])
def test_a_write_that_is_recorded_raises_where_the_other_would_not_know(mesh, name, write_to):
    weight = weft.distribute_tensor(torch.randn(4, 6), mesh, [Shard(0)]).requires_grad_()
    x = weight * 1
    results = torch.compile(lambda x: WRITES[name][0](x, mesh), backend="aot_eager", fullgraph=True)(x)
    y = results if isinstance(results, torch.Tensor) else results[0]
    with pytest.raises(RuntimeError, match="is a view"):
        (x if write_to == "argument" else y).mul_(2)
        (y.full_tensor() if weft.is_dtensor(y) else y).sum().backward()


@pytest.mark.parametrize("backend", BACKENDS)
def test_plain_memory_that_is_written_to_after_from_local(mesh, backend):
    weight = torch.randn(4, 6, requires_grad=True)
    x = weight * 1
    y = torch.compile(lambda x: weft.from_local(x, mesh, [Shard(0)]), backend=backend, fullgraph=True)(x)
    square = (y * y).sum()
    with torch.no_grad():
        x.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        square.backward()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_copies_notice_what_is_written_to_results(mesh, mode):
    """A view that had to be gathered is out of date once the memory has changed, which it learns of the results too."""
    with mode():
        x = weft.distribute_tensor(torch.randn(4, 6), mesh, [Shard(0)])
        given = torch.compile(lambda x: (x.to_local(), x[:, 1:]), backend="aot_eager", fullgraph=True)(x)
        for result in given:
            copied = x.view(24)[1:5]
            result.mul_(2)
            with pytest.raises(ValueError, match="has changed since"):
                copied + 1


WRITTEN_INSIDE = {
    "a view": lambda x, mesh: x[:, 1:],
    "a transposed view": lambda x, mesh: x.t(),
    "a local tensor": lambda x, mesh: x.to_local(),
    "a detached one": lambda x, mesh: x.detach(),
    "another layout of the memory": lambda x, mesh: weft.from_local(x.to_local(), mesh, x.placements),
}


@pytest.mark.parametrize("name", WRITTEN_INSIDE)
@pytest.mark.parametrize("is_taken_before", [False, True])
def test_results_that_share_memory_with_a_written_argument_are_refused(mesh, name, is_taken_before):
    def function(x):
        before = WRITTEN_INSIDE[name](x, mesh)
        x.add_(1)
        return before if is_taken_before else WRITTEN_INSIDE[name](x, mesh)

    x = weft.distribute_tensor(torch.zeros(4, 6), mesh, [Shard(0)])
    with pytest.raises(Exception, match="a result with memory of its own is required where the function writes to an argument"):
        torch.compile(function, backend="aot_eager", fullgraph=True)(x)
    copied = torch.compile(lambda x: (function(x).clone(), x), backend="aot_eager", fullgraph=True)(x)
    assert copied[1] is x and (copied[0].full_tensor() if weft.is_dtensor(copied[0]) else copied[0]).eq(1).all()


def test_a_plain_argument_that_is_written_to_through_a_distributed_tensor(mesh):
    def function(x):
        y = weft.from_local(x, mesh, [Shard(0)])
        x.add_(1)
        return y

    with pytest.raises(Exception, match="a result with memory of its own is required"):
        torch.compile(function, backend="aot_eager", fullgraph=True)(torch.zeros(2, 2))


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_share_no_memory(mesh, backend):
    """Optimizers write to gradients in place, and autograd keeps a gradient that nothing else refers to."""
    x, y = (weft.distribute_tensor(torch.randn(4, 6), mesh, [Shard(0)]).requires_grad_() for _ in range(2))
    given = weft.distribute_tensor(torch.randn(4, 6), mesh, [Shard(0)])
    torch.compile(lambda x, y: x + y, backend=backend, fullgraph=True)(x, y).backward(given)
    want = given.full_tensor()
    x.grad.mul_(2)
    assert torch.equal(y.grad.full_tensor(), want) and torch.equal(given.full_tensor(), want)
    y.grad.mul_(2)
    assert torch.equal(given.full_tensor(), want)


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_without_a_use_have_no_gradient(mesh, backend):
    w = weft.distribute_tensor(torch.randn(4, 6), mesh, [Shard(0)]).requires_grad_()
    compiled = torch.compile(lambda w: (w * 2, w * w), backend=backend, fullgraph=True)
    for i, want in enumerate((torch.full((4, 6), 2.0), 2 * w.detach().full_tensor())):
        w.grad = None
        compiled(w)[i].sum().backward()
        assert w.grad.placements == w.placements and torch.equal(w.grad.full_tensor(), want)
