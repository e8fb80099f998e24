"""torch.compile on a mesh of 2 x 2 of tensors whose shard order is not that of the mesh dims: it is part of the layout."""

import copy

import pytest
import torch
import weft
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from weft import _C, Shard

ORDERS = ["{S(0), S(0)}", "{S(0)[1], S(0)[0]}"]


@pytest.fixture
def mesh():
    torch._dynamo.reset()
    return weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


def sharded(full, mesh, order):
    x = weft.distribute_tensor(full, mesh, _C.Layout(order))
    assert str(_C.spec(x).layout) == order and x.placements == (Shard(0), Shard(0))
    return x


@pytest.mark.parametrize("orders", [ORDERS, ORDERS[::-1]], ids=" ".join)
def test_another_shard_order_compiles_again(mesh, orders):
    compiled = torch.compile(lambda x: x.full_tensor() * 2, backend="aot_eager", fullgraph=True)
    for rows, order in [(4, 0), (8, 0), (12, 0), (8, 1), (16, 1), (4, 1), (12, 0)]:
        full = torch.randn(rows, 3)
        assert torch.equal(compiled(sharded(full, mesh, orders[order])), full * 2)


def test_a_program_refuses_another_shard_order(mesh):
    """Also where guards do not ask, as of programs that are called without them."""
    given, other = (sharded(torch.randn(8, 3), mesh, order) for order in ORDERS)
    torch._dynamo.mark_dynamic(given, 0)
    calls = []

    def keep(graph, inputs):
        program = aot_autograd(fw_compiler=lambda graph, inputs: make_boxed_func(graph))(graph, inputs)

        def call(*arguments):
            calls.append((program, arguments))
            return program(*arguments)

        return call

    torch.compile(lambda x: x.full_tensor(), backend=keep, fullgraph=True)(given)
    (program, arguments), *_ = calls
    with pytest.raises(ValueError, match="Compile again, or redistribute it"):
        program(*(other if weft.is_dtensor(each) else each for each in arguments))


@pytest.mark.parametrize("order", ORDERS)
def test_gradients_have_the_shard_order_of_the_tensor(mesh, order):
    full = torch.randn(8, 3)
    x = sharded(full, mesh, order).requires_grad_()
    y = torch.compile(lambda x: x * x, backend="aot_eager", fullgraph=True)(x)
    given = torch.randn(8, 3)
    y.backward(weft.distribute_tensor(given, mesh, _C.Layout(ORDERS[1 - ORDERS.index(order)])))
    assert torch.equal(x.grad.full_tensor(), 2 * full * given)


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_made_again_of_a_local_tensor_keeps_the_shard_order(mesh, order):
    x = sharded(torch.randn(8, 3), mesh, order)
    again = [copy.deepcopy(x), weft.DTensor(x.to_local(), _C.spec(x))]
    for each in again:
        assert _C.spec(each) == _C.spec(x) and torch.equal(each.to_local(), x.to_local())
