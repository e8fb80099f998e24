"""Operators on partial values: the result of the value itself, and no reduction where none is needed."""

import math

import pytest
import torch
import weft
from weft import Partial, Replicate, Shard

X = torch.arange(1.0, 9.0).reshape(2, 4) - 4.5


def partial(tensor, mesh, op="sum"):
    return weft.distribute_tensor(tensor.clone(), mesh, [Replicate()]).redistribute(mesh, [Partial(op)])


NOT_LINEAR = {
    "times inf": lambda x: x * math.inf,
    "inf times": lambda x: -math.inf * x,
    "times nan": lambda x: x * math.nan,
    "by zero": lambda x: x / 0,
    "by integer zero": lambda x: torch.div(x, 0),
    "in place": lambda x: x.clone().mul_(math.inf),
    "in place by zero": lambda x: x.clone().div_(0),
    "0-dim tensor": lambda x: x * torch.tensor(math.inf),
    "Scalar overload": lambda x: torch.ops.aten.mul.Scalar(x, math.inf),
    "alpha": lambda x: torch.add(x, x, alpha=math.inf),
    "lerp": lambda x: torch.lerp(x, x, math.inf),
    "addcmul": lambda x: torch.addcmul(x, x, x * 0 + 1, value=math.inf),
    "foreach": lambda x: torch._foreach_mul([x], math.inf)[0],
    "foreach list": lambda x: torch._foreach_mul([x], [math.inf])[0],
    "foreach in place": lambda x: (lambda t: (torch._foreach_div_([t], 0.0), t)[1])(x.clone()),
}


@pytest.mark.parametrize("op", ["sum", "avg"])
@pytest.mark.parametrize("name", NOT_LINEAR)
def test_numbers_that_are_not_finite_give_what_one_device_gives(name, op):
    program = NOT_LINEAR[name]
    want = program(X.clone())

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = partial(X, mesh, op)
        torch.testing.assert_close((x * 2).full_tensor(), X * 2)
        for _ in range(2):
            torch.testing.assert_close(program(x).full_tensor(), want, equal_nan=True)
        assert (x * 2).placements == (Partial(op),), "finite numbers keep the terms"
        assert (x / 2).placements == (Partial(op),)

    weft.run_on_ranks(2, on_rank)


def test_the_terms_of_a_product_of_matrices_are_not_scaled_by_inf():
    a, b, c = torch.ones(2, 4), torch.tensor([[1.0], [1], [-1], [0]]).expand(4, 3), torch.ones(2, 3)
    want = torch.addmm(c, a, b, alpha=math.inf, beta=math.inf)

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        layouts = (Replicate(), Shard(1), Shard(0))
        args = [weft.distribute_tensor(t.clone(), mesh, [p]) for t, p in zip((c, a, b), layouts)]
        assert torch.addmm(*args).placements == (Partial(),)
        got = torch.addmm(*args, alpha=math.inf, beta=math.inf)
        torch.testing.assert_close(got.full_tensor(), want, equal_nan=True)

    weft.run_on_ranks(2, on_rank)


def test_negating_a_maximum_gives_a_minimum():
    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        with weft.strict():
            for op, other in (("max", "min"), ("min", "max"), ("sum", "sum"), ("avg", "avg")):
                x = weft.from_local(X + rank, mesh, [Partial(op)])
                assert (-x).placements == (Partial(other),)
        largest = weft.from_local(X + rank, mesh, [Partial("max")])
        torch.testing.assert_close((-largest).full_tensor(), -(X + 1))
        torch.testing.assert_close(largest.neg_().full_tensor(), -(X + 1))
        assert largest.placements == (Partial("max"),)

    weft.run_on_ranks(2, on_rank)


def test_what_is_added_to_the_terms_of_a_maximum_is_added_to_it():
    y = torch.arange(8.0).reshape(2, 4)

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        replicated = weft.distribute_tensor(y, mesh, [Replicate()])
        for op, value in (("max", X + 1), ("min", X), ("avg", X + 0.5)):
            x = weft.from_local(X + rank, mesh, [Partial(op)])
            with weft.strict():
                sums = [x + replicated, x - replicated, x + 2, x - 2, torch.add(x, replicated, alpha=-3)]
                sums.append(x.clone().add_(replicated))
            assert all(each.placements == (Partial(op),) for each in sums)
            wanted = [value + y, value - y, value + 2, value - 2, torch.add(value, y, alpha=-3), value + y]
            for got, want in zip(sums, wanted):
                torch.testing.assert_close(got.full_tensor(), want)
            for other in (lambda a, b: a + a, lambda a, b: b - a, lambda a, b: 2 - a, lambda a, b: a + math.inf):
                torch.testing.assert_close(other(x, replicated).full_tensor(), other(value, y))

    weft.run_on_ranks(2, on_rank)


def test_a_row_of_terms_is_put_among_terms():
    row, position = torch.arange(4.0), [torch.tensor(1)]

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        for op in ("sum", "max"):
            x, values = partial(X, mesh, op), partial(row, mesh, op)
            with weft.strict():
                put = torch.index_put(x, position, values)
            assert put.placements == (Partial(op),)
            torch.testing.assert_close(put.full_tensor(), torch.index_put(X, position, row))
            twice = [weft.distribute_tensor(torch.tensor([1, 1]), mesh, [Replicate()])]
            assert torch.index_put(x, twice, values).placements != (Partial(op),)

    weft.run_on_ranks(2, on_rank)


def test_uninitialised_memory_is_partial_where_its_example_is():
    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = partial(X, mesh)
        for made in (torch.empty_like(x), x.new_empty(x.shape), x.new_empty_strided(x.shape, x.stride())):
            assert made.placements == (Partial(),)
            with weft.strict():
                made.copy_(x)
            torch.testing.assert_close(made.full_tensor(), X)
            torch.testing.assert_close(made.fill_(3).full_tensor(), torch.full_like(X, 3))
        for made in (torch.zeros_like(x), x.new_ones(x.shape), torch.empty_like(x, dtype=torch.int64)):
            assert made.placements == (Replicate(),)

    weft.run_on_ranks(2, on_rank)


def test_the_gradient_of_terms_stays_terms():
    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x, gradient = partial(X, mesh).requires_grad_(), partial(X, mesh)
        with weft.comm_debug() as comm:
            x.redistribute(mesh, [Partial()]).backward(gradient)
            x.backward(gradient)
        assert comm.calls == 0 and x.grad.placements == (Partial(),)
        torch.testing.assert_close(x.grad.full_tensor(), 2 * X)
        x.grad = None
        (x * weft.distribute_tensor(X, mesh, [Shard(0)])).sum().backward()
        assert x.grad.placements == (Replicate(),)
        torch.testing.assert_close(x.grad.full_tensor(), X)

    weft.run_on_ranks(2, on_rank)


def test_prod_is_a_product():
    assert Partial("prod") == Partial("product")

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = weft.from_local(X + rank, mesh, [Partial("prod")])
        torch.testing.assert_close(x.redistribute(mesh, [Replicate()]).to_local(), X * (X + 1))
        torch.testing.assert_close(x.redistribute(mesh, [Shard(1)]).full_tensor(), X * (X + 1))
        again = weft.distribute_tensor(X.clone(), mesh, [Replicate()]).redistribute(mesh, [Partial("prod")])
        torch.testing.assert_close(again.full_tensor(), X)

    weft.run_on_ranks(2, on_rank)
