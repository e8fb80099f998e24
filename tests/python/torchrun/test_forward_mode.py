"""Forward mode AD with one rank per process: tangents are those of one device."""

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
import weft
from torch.nn import functional as F

LAYOUTS = [weft.Replicate(), weft.Shard(0), weft.Shard(1)]


def of(dual):
    return forward_ad.unpack_dual(dual).tangent


FUNCTIONS = [
    lambda x, w: torch.tanh(x * w).sum(0),
    lambda x, w: torch.mm(x, w),
    lambda x, w: torch.softmax(x, 1) * w,
    lambda x, w: F.layer_norm(x, (4,)) + w,
    torch.matmul,
    F.linear,
    lambda x, w: F.linear(w, x, w[0]),
    lambda x, w: torch.einsum("ij,jk->ki", x, w),
    lambda x, w: F.embedding((w * 9).long() % 4, x),
    lambda x, w: F.scaled_dot_product_attention(x[None], w[None], w[None]),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_dual_tensors(mesh, function, layout):
    x, tangent, w = torch.randn(3, 4, 4)
    with forward_ad.dual_level():
        expected = of(function(forward_ad.make_dual(x, tangent), w))
        primal, direction, weight = (weft.distribute_tensor(t, mesh, [layout]) for t in (x, tangent, w))
        result = of(function(forward_ad.make_dual(primal, direction), weight))
        torch.testing.assert_close(result.full_tensor(), expected)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_jvp(mesh, function, layout):
    x, tangent, w = torch.randn(3, 4, 4)
    expected = torch.func.jvp(lambda x: function(x, w), (x,), (tangent,))
    primal, direction, weight = (weft.distribute_tensor(t, mesh, [layout]) for t in (x, tangent, w))
    result = torch.func.jvp(lambda x: function(x, weight), (primal,), (direction,))
    for one, other in zip(result, expected):
        torch.testing.assert_close(one.full_tensor(), other)


def test_a_product_with_the_hessian(mesh):
    x, tangent, w = torch.randn(3, 4, 4)
    gradient = lambda w: torch.func.grad(lambda x: torch.tanh(torch.mm(x, w)).sum())  # noqa: E731
    expected = torch.func.jvp(gradient(w), (x,), (tangent,))[1]
    primal, direction, weight = (weft.distribute_tensor(t, mesh, [weft.Shard(0)]) for t in (x, tangent, w))
    result = torch.func.jvp(gradient(weight), (primal,), (direction,))[1]
    torch.testing.assert_close(result.full_tensor(), expected)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_tangents_pass_between_plain_and_distributed_tensors(mesh, requires_grad):
    x, tangent = torch.randn(2, 4, 4)
    rows = slice(2 * mesh.get_local_rank(), 2 * mesh.get_local_rank() + 2)
    primal = weft.distribute_tensor(x, mesh, [weft.Shard(0)]).requires_grad_(requires_grad)
    direction = weft.distribute_tensor(tangent, mesh, [weft.Shard(0)])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(primal, direction)
        torch.testing.assert_close(of(dual.to_local()), tangent[rows])
        torch.testing.assert_close(of(dual.full_tensor()), tangent)
        moved = dual.redistribute(placements=[weft.Replicate()])
        torch.testing.assert_close(of(moved).to_local(), tangent)
        assert moved.requires_grad == requires_grad
        local = forward_ad.make_dual(x[rows].clone().requires_grad_(requires_grad), tangent[rows])
        made = weft.from_local(local, mesh, [weft.Shard(0)])
        torch.testing.assert_close(of(made).full_tensor(), tangent)
        assert made.requires_grad == requires_grad
        if not requires_grad:
            made = weft.distribute_tensor(forward_ad.make_dual(x, tangent), mesh, [weft.Shard(1)])
            torch.testing.assert_close(of(made).full_tensor(), tangent)


def test_what_is_not_linear_has_no_tangent(mesh):
    x = torch.ones(4)
    with forward_ad.dual_level():
        with pytest.raises(NotImplementedError, match=r"\[from_local\] gradients of P\(sum\) and P\(avg\) are known"):
            weft.from_local(forward_ad.make_dual(x, x.clone()), mesh, [weft.Partial("max")])
