"""Cross entropy of class-sharded logits compiled as one graph, on two processes."""

import os
import sys

import pytest
import torch
import weft
from torch.nn import functional as F
from weft import Replicate, Shard, _C

sys.path.insert(0, os.path.dirname(__file__))
from compiled import assert_compiles_as_eager

ROWS, CLASSES = 6, 10


def inside(x, target, **options):
    with weft.loss_parallel():
        return F.cross_entropy(x, target, **options)


def expect_as_eager(function, x, target, backends=("eager", "graphs"), counts_collectives=True, **options):
    """In eager and compiled code; the loss is that of plain tensors."""
    graphs = assert_compiles_as_eager(
        lambda x, y: function(x, y, **options), (x, target), backends=backends, counts_collectives=counts_collectives
    )
    plain = target.full_tensor() if weft.is_dtensor(target) else target
    with weft.loss_parallel():
        loss = function(x, target, **options)
    torch.testing.assert_close(loss.full_tensor(), F.cross_entropy(x.full_tensor(), plain, **options))
    return graphs


OPTIONS = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "none": {"reduction": "none"},
    "smoothing": {"label_smoothing": 0.2},
    "weight": {"weight": torch.linspace(0.5, 2, CLASSES)},
    "ignored": {"ignore_index": 3},
    "all": {"label_smoothing": 0.1, "weight": torch.linspace(0.5, 2, CLASSES), "ignore_index": 3},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("probabilities", [False, True], ids=["classes", "probabilities"])
def test_class_sharded_logits_are_not_gathered(mesh, name, probabilities):
    options = OPTIONS[name]
    if probabilities and "ignore_index" in options:
        options = {key: value for key, value in options.items() if key != "ignore_index"}
    x = weft.distribute_tensor(torch.randn(ROWS, CLASSES), mesh, [Shard(1)])
    target = torch.rand(ROWS, CLASSES).softmax(-1) if probabilities else torch.tensor([3, 9, 0, 5, 3, 4])
    if probabilities:
        target = weft.distribute_tensor(target, mesh, [Shard(1)])
    backends = ("eager", "graphs", "inductor") if name == "all" else ("eager", "graphs")
    graphs = expect_as_eager(inside, x, target, backends, **options)
    calls, _ = graphs.collectives()
    assert calls == {"all_reduce": 2}  # the greatest logits, and the sums


@pytest.mark.parametrize("placement", [Shard(0), Replicate()], ids=str)
@pytest.mark.parametrize("name", ["mean", "none", "all"])
def test_rows_may_be_sharded_or_replicated(mesh, placement, name):
    x = weft.distribute_tensor(torch.randn(ROWS, CLASSES), mesh, [placement])
    target = weft.distribute_tensor(torch.tensor([3, 9, 0, 5, 3, 4]), mesh, [placement])
    # In the last case PyTorch composes the loss of other operators for tensors of a subclass, as traced ones are.
    expect_as_eager(inside, x, target, counts_collectives=name != "all", **OPTIONS[name])


def test_a_scope_outside_compiles_again(mesh):
    x = weft.distribute_tensor(torch.randn(ROWS, CLASSES), mesh, [Shard(1)])
    target = torch.tensor([3, 9, 0, 5, 3, 4])
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(F.cross_entropy, backend=counter, fullgraph=True)
    for expected in (1, 1):
        with weft.loss_parallel():
            assert torch.equal(compiled(x, target).to_local(), F.cross_entropy(x, target).to_local())
        assert counter.frame_count == expected
    with weft.replicate_plain():
        compiled(x, target)
    assert counter.frame_count == 2


def test_the_scope_of_a_compiled_function_ends_with_it_also_by_an_error(mesh):
    x = weft.distribute_tensor(torch.randn(ROWS, CLASSES), mesh, [Shard(1)])
    for backend in ("eager", "aot_eager", "inductor"):
        torch._dynamo.reset()
        compiled = torch.compile(inside, backend=backend, fullgraph=True)
        compiled(x, torch.zeros(ROWS, dtype=torch.int64))
        assert _C.tracing_state() == 0
        with pytest.raises((IndexError, RuntimeError), match="targets must be classes from 0 to 9 or ignore_index"):
            compiled(x, torch.full((ROWS,), CLASSES))
        assert _C.tracing_state() == 0


@pytest.mark.parametrize("scope", [weft.strict, weft.replicate_plain, weft.loss_parallel])
def test_a_switch_may_be_set_inside_of_a_function(mesh, scope):
    x = weft.distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])

    def function(x):
        with scope():
            with scope(False):
                y = x.sum(0).redistribute(placements=[Replicate()])
            return x * y

    assert_compiles_as_eager(function, (x,))
    assert _C.tracing_state() == 0


def test_strict_inside_of_a_function_refuses_communication(mesh):
    def function(x):
        with weft.strict():
            return x.sum(0) * x

    x = weft.distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])
    with pytest.raises(Exception, match="which the strict scope forbids"):
        torch.compile(function, backend="aot_eager", fullgraph=True)(x)
    assert _C.tracing_state() == 0
