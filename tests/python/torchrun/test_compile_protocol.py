"""What tracers ask of a distributed tensor, on two processes: to be flattened and rebuilt, layouts of gradients, and guards."""

import os
import sys

import pytest
import torch
import weft
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from weft import Partial, RaggedShard, Replicate, Shard, StridedShard, _C
from weft._trace.traced_tensor import TracedTensor

sys.path.insert(0, os.path.dirname(__file__))
from compiled import assert_same, Graphs


@pytest.fixture(scope="module")
def both():
    return weft.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))


LAYOUTS = [
    ((4, 4), [Replicate()]),
    ((4, 4), [Shard(0)]),
    ((5, 4), [Shard(0)]),
    ((4, 1), [Shard(1)]),
    ((8, 4), [StridedShard(0, split_factor=2)]),
    ((12, 4), [StridedShard(0, blocks=(4, 1, 1))]),
    ((8, 4), [RaggedShard(0, (3, 5))]),
    ((4, 8), [RaggedShard(1, (0, 8))]),
    *(((3, 4), [Partial(op)]) for op in ("sum", "avg", "min", "max", "product")),
    ((4, 6), [Shard(0), Shard(1)]),
    ((5, 6), [Partial("avg"), Shard(0)]),
    ((8, 4), [Shard(0), StridedShard(0, split_factor=2)]),
]


def tensor_of(mesh, both, shape, layout, seed=0):
    """A tensor of integers, so that sums are exact."""
    on = mesh if len(layout) == 1 else both
    numbers = torch.Generator().manual_seed(seed + on.get_rank())
    own = torch.randint(-4, 5, _C.local_shape_and_offset(shape, on, layout)[0], generator=numbers).float()
    return weft.from_local(own, on, layout, shape=shape, stride=(shape[1], 1))


@pytest.mark.parametrize(("shape", "layout"), LAYOUTS, ids=str)
def test_a_flattened_tensor_is_rebuilt(mesh, both, shape, layout):
    x = tensor_of(mesh, both, shape, layout)
    fake = FakeTensorMode().from_tensor(x)
    assert type(fake) is TracedTensor and fake.shape == x.shape and _C.spec(fake) == _C.spec(x)
    names, wrapped = fake.__tensor_flatten__()
    assert names == ["_local_tensor"] and fake._local_tensor.shape == x.to_local().shape
    again = TracedTensor.__tensor_unflatten__({"_local_tensor": fake._local_tensor}, wrapped, fake.shape, fake.stride())
    assert type(again) is TracedTensor and _C.spec(again) == _C.spec(x)
    real = TracedTensor.__tensor_unflatten__({"_local_tensor": x.to_local()}, wrapped, fake.shape, fake.stride())
    assert type(real) is torch.Tensor and _C.spec(real) == _C.spec(x) and torch.equal(real.to_local(), x.to_local())
    tangent = fake.__coerce_tangent_metadata__()
    assert tangent.placements == tuple(Replicate() if p.is_partial() else p for p in x.placements)
    same = tangent.__coerce_same_metadata_as_tangent__(tangent.__tensor_flatten__()[1])
    assert _C.spec(same) == _C.spec(tangent)
    assert TracedTensor.__metadata_guard__(wrapped, fake.__tensor_flatten__()[1])


@pytest.mark.parametrize(("shape", "layout"), LAYOUTS, ids=str)
def test_a_tensor_goes_through_a_program(mesh, both, shape, layout):
    x = tensor_of(mesh, both, shape, layout)

    def function(x):
        return x * 2, x.redistribute(placements=[Replicate()] * len(layout)) + 1, x

    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    for seed in range(2):
        y = tensor_of(mesh, both, shape, layout, seed)
        assert_same(compiled(y), function(y))
    assert not torch.equal(x.full_tensor(), torch.zeros(shape))


@pytest.mark.parametrize("tangent", [Replicate(), Shard(0), Shard(1), Partial(), StridedShard(0, split_factor=2)], ids=str)
@pytest.mark.parametrize("layout", [Replicate(), Shard(0), Shard(1)], ids=str)
def test_a_gradient_of_another_layout_is_redistributed(mesh, both, layout, tangent):
    results = []
    for run in (torch.mm, torch.compile(torch.mm, backend="aot_eager", fullgraph=True)):
        w = nn.Parameter(tensor_of(mesh, both, (4, 4), [layout], 1))
        x = weft.distribute_tensor(torch.arange(16.0).view(4, 4), mesh, [Replicate()])
        y = run(w, x)
        y.backward(tensor_of(mesh, both, (4, 4), [tangent], 3))
        results.append([y.detach(), w.grad])
    assert_same(*results)


class Counted:
    """A compiled function, and how often it was compiled."""

    def __init__(self, function):
        self.graphs = Graphs()
        self.compiled = torch.compile(function, backend=self.graphs.backend, fullgraph=True)

    def __call__(self, *arguments, compilations):
        result = self.compiled(*arguments)
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == compilations
        return result


@pytest.fixture
def counted():
    torch._dynamo.utils.counters.clear()
    return Counted


def test_another_layout_compiles_again_and_the_same_does_not(mesh, counted):
    compiled = counted(lambda x: x + 1)
    x = torch.randn(4, 4)
    for placement, expected in [(Shard(0), 1), (Shard(0), 1), (Shard(1), 2), (Replicate(), 3), (Shard(0), 3), (Partial(), 4)]:
        from_placement = Replicate() if placement.is_partial() else placement
        given = weft.distribute_tensor(x, mesh, [from_placement]).redistribute(placements=[placement])
        assert torch.equal(compiled(given, compilations=expected).full_tensor(), x + 1)


def test_another_mesh_compiles_again(mesh, counted):
    compiled = counted(lambda x: x.redistribute(placements=[Replicate()]))
    other = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    x = torch.randn(4)
    for each, expected in [(mesh, 1), (other, 2), (mesh, 2)]:
        assert torch.equal(compiled(weft.distribute_tensor(x, each, [Shard(0)]), compilations=expected).to_local(), x)


def test_another_shape_dtype_or_need_of_gradients_compiles_again(mesh, counted):
    compiled = counted(lambda x: (x * x).sum())

    def call(shape, dtype, requires_grad, compilations):
        x = weft.distribute_tensor(torch.ones(shape, dtype=dtype), mesh, [Shard(0)]).requires_grad_(requires_grad)
        y = compiled(x, compilations=compilations)
        assert y.full_tensor() == torch.ones(shape).numel() and y.requires_grad == requires_grad

    call((4, 4), torch.float32, False, 1)
    call((6, 4), torch.float32, False, 2)
    call((4, 4), torch.float64, False, 3)
    call((4, 4), torch.float32, True, 4)
    for expected in ((4, 4), (6, 4)):
        call(expected, torch.float32, False, 4)


def test_a_tensor_that_becomes_a_parameter_compiles_again(mesh, counted):
    """Operators keep parameters where they are, and move activations."""
    compiled = counted(lambda w: w @ w)
    w = weft.distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])
    compiled(w.clone().requires_grad_(), compilations=1)
    y = compiled(nn.Parameter(w), compilations=2)
    assert torch.equal(y.to_local(), (nn.Parameter(w) @ nn.Parameter(w)).to_local())
    compiled(nn.Parameter(w.clone()), compilations=2)


@pytest.mark.parametrize("scope", [weft.loss_parallel, weft.strict, weft.replicate_plain])
def test_another_scope_compiles_again(mesh, counted, scope):
    compiled = counted(lambda x: x * 2)
    x = weft.distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])
    for enabled, expected in [(False, 1), (True, 2), (False, 2), (True, 2)]:
        with scope(enabled):
            compiled(x, compilations=expected)


def test_what_a_scope_allows_is_not_allowed_outside(mesh):
    compiled = torch.compile(lambda x, mask: x * mask, backend="aot_eager", fullgraph=True)
    x, mask = weft.distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)]), torch.ones(4)
    with weft.replicate_plain():
        assert torch.equal(compiled(x, mask).to_local(), x.to_local())
    with pytest.raises(Exception, match="distributed and plain tensors cannot be mixed"):
        compiled(x, mask)


def test_a_program_refuses_communication_in_the_strict_scope(mesh):
    compiled = torch.compile(lambda x, y: x * y.sum(), backend="aot_eager", fullgraph=True)
    x = weft.distribute_tensor(torch.randn(4, 4), mesh, [Shard(0)])
    compiled(x, x)
    with weft.strict(), pytest.raises(Exception, match="which the strict scope forbids"):
        compiled(x, x)


def test_scopes_count_also_where_no_argument_is_distributed(mesh, counted):
    def function(x):
        y = weft.from_local(x, mesh, [Shard(0)])
        return (y * y.sum()).to_local()

    compiled, x = counted(function), torch.ones(2, 4)
    assert torch.equal(compiled(x, compilations=1), 16 * x)
    with weft.strict(), pytest.raises(Exception, match="which the strict scope forbids"):
        compiled.compiled(x)
    assert torch.equal(compiled(x, compilations=1), 16 * x)


def test_the_boundary_is_crossed_by_one_call_for_all_tensors(mesh, monkeypatch):
    """Nothing is rebuilt tensor by tensor in Python, in forward or backward."""
    model = weft.parallelize_module(
        nn.Sequential(*(nn.Linear(4, 4) for _ in range(4))), mesh, {str(i): weft.ReplicateParallel() for i in range(4)}
    )
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    x = torch.randn(2, 4)
    calls = []
    for name in ("enter_compiled", "leave_compiled", "leave_backward"):
        monkeypatch.setattr(_C, name, lambda *given, name=name, call=getattr(_C, name): [calls.append(name), call(*given)][1])
    compiled(x).sum().backward()
    calls.clear()
    for name in ("__tensor_flatten__", "__tensor_unflatten__", "__torch_dispatch__"):
        monkeypatch.setattr(TracedTensor, name, lambda *given, name=name: pytest.fail(f"{name} was called in a compiled step"))
    model.zero_grad()
    compiled(x).sum().backward()
    assert calls == ["enter_compiled", "leave_compiled", "leave_backward"]
    assert all(p.grad is not None for p in model.parameters())
