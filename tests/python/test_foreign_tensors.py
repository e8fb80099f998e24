"""Tensors without memory of their own among distributed ones: refused by name, never read."""

import pytest
import torch
import torch.utils._pytree as pytree
import weft
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._functional_collectives import AsyncCollectiveTensor


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, wrapped):
        made = torch.Tensor._make_wrapper_subclass(cls, wrapped.shape, dtype=wrapped.dtype, device=wrapped.device)
        made.wrapped = wrapped
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        args, kwargs = pytree.tree_map(lambda t: t.wrapped if isinstance(t, Wrapper) else t, (args, kwargs or {}))
        return pytree.tree_map(lambda t: Wrapper(t) if isinstance(t, torch.Tensor) else t, function(*args, **kwargs))


class Named(torch.Tensor):
    """Without a __torch_dispatch__: its memory is its own."""


class Watched(torch.Tensor):
    """With memory, and a __torch_dispatch__ that would see half of what happens to it."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def plain():
    return torch.arange(8.0).view(2, 4)


REFUSED = {
    "wrapper": (lambda: Wrapper(plain()), "a plain tensor is required, but got Wrapper, which runs operators by itself"),
    "watched": (lambda: plain().as_subclass(Watched), "a plain tensor is required, but got Watched, which runs"),
    "fake": (lambda: FakeTensorMode().from_tensor(plain()), "a plain tensor is required, but got FakeTensor, which runs"),
    "functional": (lambda: torch._to_functional_tensor(plain()), "but got a functional one of shape"),
    "zeros": (lambda: torch._efficientzerotensor(2, 4), "but got zeros without any of shape"),
    "sparse": (lambda: plain().to_sparse(), "a strided tensor is required, but got one of layout Sparse"),
    "csr": (lambda: plain().to_sparse_csr(), "a strided tensor is required, but got one of layout SparseCsr"),
    "mkldnn": (lambda: plain().to_mkldnn(), "a strided tensor is required, but got one of layout Mkldnn"),
    "nested": (lambda: torch.nested.nested_tensor(list(plain())), "a strided tensor is required, but got a nested one"),
    "jagged": (
        lambda: torch.nested.nested_tensor(list(plain()), layout=torch.jagged),
        "a plain tensor is required, but got NestedTensor, which runs",
    ),
    "quantized": (lambda: torch.quantize_per_tensor(plain(), 0.1, 0, torch.qint8), "but got QInt8"),
}


@pytest.fixture
def mesh():
    return weft.init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))


@pytest.fixture
def x(mesh):
    return weft.distribute_tensor(plain(), mesh, [weft.Shard(0)])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", REFUSED)
def test_cannot_be_distributed(mesh, kind):
    make, text = REFUSED[kind]
    # from_local makes a traced tensor of a tracer's; distribute_tensor would have to send its values.
    for distribute in (weft.distribute_tensor,) if kind == "fake" else (weft.from_local, weft.distribute_tensor):
        for placement in (weft.Replicate(), weft.Shard(0)):
            with pytest.raises((TypeError, NotImplementedError), match=text):
                distribute(make(), mesh, [placement])


@pytest.mark.parametrize("kind", ["wrapper", "fake", "functional"])
def test_cannot_be_a_parameter_of_a_distributed_module(mesh, kind):
    make, _ = REFUSED[kind]
    layer = nn.Linear(4, 2, bias=False)
    layer.weight = nn.Parameter(make(), requires_grad=False)
    with pytest.raises((TypeError, NotImplementedError), match="is required, but got"):
        weft.distribute_module(layer, mesh)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", REFUSED)
def test_cannot_take_the_place_of_a_distributed_tensors_data(x, kind):
    make, _ = REFUSED[kind]
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.clone().data = make()


def test_a_functional_tensor_of_a_distributed_one_is_none(x):
    functional = torch._to_functional_tensor(x)
    assert not weft.is_dtensor(functional)
    with pytest.raises(TypeError, match="a distributed tensor is required"):
        weft.full_tensor(functional)


def test_one_that_is_on_its_way_is_waited_for(mesh):
    on_its_way = AsyncCollectiveTensor(plain())
    for distribute in (weft.from_local, weft.distribute_tensor):
        made = distribute(on_its_way, mesh, [weft.Shard(0)])
        assert type(made.to_local()) is torch.Tensor
        torch.testing.assert_close(made.full_tensor(), plain())


def test_subclasses_with_memory_are_plain_tensors(mesh):
    for make in (lambda: plain().as_subclass(Named), lambda: nn.Parameter(plain())):
        torch.testing.assert_close(weft.from_local(make(), mesh, [weft.Shard(0)]).full_tensor().detach(), plain())


def test_transforms_of_torch_func(mesh, x):
    with pytest.raises((TypeError, RuntimeError)):
        torch.vmap(lambda row: weft.from_local(row, mesh, [weft.Replicate()]))(plain())
    with pytest.raises(TypeError, match=r"inside of a transform of torch.func"):
        torch.func.grad(lambda t: weft.from_local(t, mesh, [weft.Replicate()]).sum())(plain())
    torch.testing.assert_close(torch.func.grad(lambda t: (t * t).sum())(x).full_tensor(), 2 * plain())


def test_operators_over_both(x):
    """A wrapper runs the operator by itself, on what it wraps."""
    with weft.replicate_plain():
        result = x * Wrapper(plain())
    assert isinstance(result, Wrapper)
    torch.testing.assert_close(weft.full_tensor(result.wrapped), plain() * plain())


def test_a_graph_behind_one_that_is_on_its_way_is_kept(mesh):
    leaf = plain().requires_grad_()

    class Arriving(torch.autograd.Function):
        @staticmethod
        def forward(context, tensor):
            return AsyncCollectiveTensor(tensor.detach())

        @staticmethod
        def backward(context, gradient):
            return gradient

    weft.from_local(Arriving.apply(leaf), mesh, [weft.Shard(0)]).sum().backward()
    torch.testing.assert_close(leaf.grad, torch.ones(2, 4))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("function", [weft.to_local, weft.full_tensor, weft.redistribute, weft.spec])
def test_functions_of_distributed_tensors_refuse_them(mesh, kind, function):
    make, _ = REFUSED[kind]
    options = {"placements": [weft.Replicate()]} if function is weft.redistribute else {}
    with pytest.raises(TypeError, match="a distributed tensor is required, but got a plain one"):
        function(make(), **options)


def test_parameters_views_and_tensors_without_data_are_taken(mesh):
    for make in (
        lambda: nn.Parameter(plain()),
        lambda: plain().requires_grad_() * 1,
        lambda: plain().t().t(),
        lambda: plain()[:, ::2],
        lambda: torch.arange(4.0).expand(2, 4),
        lambda: plain().to(torch.complex64).conj(),
        lambda: plain().flip(0),
        lambda: torch.empty(0, 4),
    ):
        for placement in (weft.Shard(0), weft.Replicate()):
            made = weft.from_local(make(), mesh, [placement])
            torch.testing.assert_close(made.full_tensor().detach(), make().detach())
    assert weft.from_local(plain().to("meta"), mesh, [weft.Shard(0)]).full_tensor().is_meta
