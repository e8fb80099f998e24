"""Regions of local code: local_map with torch's interface, and weft.local."""

import pytest
import torch
import weft
from weft import Partial, Replicate, Shard

ROWS, COLUMNS, EVERYWHERE = [Shard(0)], [Shard(1)], [Replicate()]


def on_ranks(program, size=2, shape=None):
    return weft.run_on_ranks(size, lambda rank: program(weft.init_device_mesh("cpu", shape or (size,))))


def matmul(a, b):
    assert not weft.is_dtensor(a) and not weft.is_dtensor(b)
    return a @ b


def test_local_map():
    x, w = torch.randn(16, 8), torch.randn(8, 12)

    def program(mesh):
        rows = weft.local_map(matmul, out_placements=ROWS, in_placements=(ROWS, EVERYWHERE), device_mesh=mesh)
        with weft.comm_debug() as c:
            y = rows(weft.distribute_tensor(x, mesh, ROWS, src_data_rank=None), weft.distribute_tensor(w, mesh, EVERYWHERE, src_data_rank=None))
        assert y.placements == (Shard(0),) and c.calls == 0
        return y.full_tensor()

    for y in on_ranks(program):
        torch.testing.assert_close(y, x @ w)


def test_local_map_as_a_decorator_over_structures():
    @weft.local_map(out_placements=(ROWS, None), in_placements=(ROWS, ROWS, None))
    def function(pair, factor):
        return {"sum": (pair[0] + pair[1]) * factor, "count": 2}

    x = torch.randn(4, 3)

    def program(mesh):
        d = weft.distribute_tensor(x, mesh, ROWS)
        result = function((d, d), 3)
        assert result["count"] == 2
        return result["sum"].full_tensor()

    for y in on_ranks(program):
        torch.testing.assert_close(y, x * 6)
    torch.testing.assert_close(function((x, x), 3)["sum"], x * 6)


def test_local_map_redistributes_if_it_may():
    x = torch.randn(4, 6)

    def program(mesh):
        d = weft.distribute_tensor(x, mesh, ROWS)
        options = {"out_placements": COLUMNS, "in_placements": (COLUMNS,)}
        with pytest.raises(ValueError, match=r"\[local_map\] argument 0 must have .* set redistribute_inputs=True"):
            weft.local_map(torch.neg, **options)(d)
        y = weft.local_map(torch.neg, **options, redistribute_inputs=True)(d)
        assert y.placements == (Shard(1),)
        return y.full_tensor()

    for y in on_ranks(program):
        torch.testing.assert_close(y, -x)


def test_local_map_with_gradient_placements():
    x, w = torch.randn(4, 2), torch.randn(2, 4)

    def program(mesh):
        dx = weft.distribute_tensor(x, mesh, ROWS).requires_grad_()
        dw = weft.distribute_tensor(w, mesh, EVERYWHERE).requires_grad_()
        function = weft.local_map(matmul, out_placements=ROWS, in_placements=(ROWS, EVERYWHERE), in_grad_placements=(ROWS, [Partial()]))
        function(dx, dw).sum().backward()
        return dx.grad.full_tensor(), dw.grad.full_tensor()

    for gx, gw in on_ranks(program):
        torch.testing.assert_close(gx, torch.ones(4, 4) @ w.T)
        torch.testing.assert_close(gw, x.T @ torch.ones(4, 4))


@pytest.mark.parametrize("rows", [5, 2, 7])
@pytest.mark.parametrize("size, shape", [(3, None), (4, (2, 2))])
def test_shards_of_different_sizes(rows, size, shape):
    x = torch.randn(rows, 4)

    def program(mesh):
        placements = [Shard(0)] * mesh.ndim
        function = weft.local_map(lambda a: torch.cat([a, a], 1), out_placements=placements, in_placements=(placements,))
        y = function(weft.distribute_tensor(x, mesh, placements))
        assert y.shape == (rows, 8)
        return y.full_tensor()

    for y in on_ranks(program, size, shape):
        torch.testing.assert_close(y, torch.cat([x, x], 1))


def test_results_that_are_not_divided_as_chunks():
    def program(mesh):
        x = weft.distribute_tensor(torch.randn(5, 4), mesh, ROWS)
        function = weft.local_map(lambda a: torch.cat([a, a]), out_placements=ROWS, in_placements=(ROWS,))
        with pytest.raises(ValueError, match=r"\[local_map\] a result .* must be divided as torch.chunk does"):
            function(x)

    on_ranks(program)


@pytest.mark.parametrize(
    "options, args, text",
    [
        ({"out_placements": ROWS, "in_placements": (ROWS, None)}, "dd", "expects placements"),
        ({"out_placements": ROWS, "in_placements": (ROWS,)}, "dd", "one entry of in_placements is required for each of the 2"),
        ({"out_placements": (ROWS, ROWS)}, "dd", "one entry of out_placements is required for each of the 1 results"),
        ({"out_placements": None}, "dd", "a tensor output expects placements"),
        ({"out_placements": ROWS, "in_placements": (ROWS, ROWS)}, "d2", "Non-Tensor input 2 expects None placements"),
        ({"out_placements": ROWS, "in_placements": (ROWS, ROWS), "in_grad_placements": (ROWS, None)}, "dd", "expects in grad placements"),
    ],
)
def test_declarations_that_do_not_fit(options, args, text):
    def program(mesh):
        given = [weft.distribute_tensor(torch.ones(4, 4), mesh, ROWS) if each == "d" else int(each) for each in args]
        with pytest.raises(AssertionError, match=text):
            weft.local_map(lambda a, b: a + b, **options)(*given)

    on_ranks(program)


@weft.local(inputs={"x": ROWS, "weight": EVERYWHERE}, outputs=ROWS)
def scaled(x, weight, by=2.0):
    assert not weft.is_dtensor(x) and not weft.is_dtensor(weight)
    return torch.tanh(x * weight) * by


@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Replicate()])
def test_local_lays_inputs_out_and_knows_their_gradients(placement):
    x, weight = torch.randn(4, 6), torch.randn(6)
    plain = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    want = scaled(*plain, by=3.0)
    (want * want).sum().backward()

    def program(mesh):
        dx = weft.distribute_tensor(x, mesh, [placement]).requires_grad_()
        dweight = weft.distribute_tensor(weight, mesh, EVERYWHERE).requires_grad_()
        y = scaled(dx, weight=dweight, by=3.0)
        assert y.placements == (Shard(0),)
        (y * y).sum().backward()
        return y.full_tensor(), dx.grad.full_tensor(), dweight.grad.full_tensor()

    for got in on_ranks(program):
        torch.testing.assert_close(got, (want.detach(), plain[0].grad, plain[1].grad))


def test_local_with_replicated_results_takes_gradients_as_equal():
    x = torch.randn(4, 6)

    def program(mesh):
        d = weft.distribute_tensor(x, mesh, ROWS).requires_grad_()
        weft.local(lambda x: x.sin(), inputs={"x": EVERYWHERE}, outputs=EVERYWHERE)(d).sum().backward()
        return d.grad.full_tensor()

    for gradient in on_ranks(program):
        torch.testing.assert_close(gradient, x.cos())


def test_local_must_be_told_gradients_that_it_cannot_know():
    def both(x, w):
        return x * w, w * 2

    def program(mesh):
        x = weft.distribute_tensor(torch.ones(4, 4), mesh, ROWS)
        w = weft.distribute_tensor(torch.ones(4), mesh, EVERYWHERE).requires_grad_()
        declared = {"inputs": {"x": ROWS, "w": EVERYWHERE}, "outputs": (ROWS, EVERYWHERE)}
        with pytest.raises(ValueError, match=r"\[local\] outputs of one kind, .* gradient of 'w'"):
            weft.local(both, **declared)(x, w)
        first, _ = weft.local(both, **declared, grads={"w": [Partial()]})(x, w)
        first.sum().backward()
        return w.grad.full_tensor()

    for gradient in on_ranks(program):
        torch.testing.assert_close(gradient, torch.full((4,), 4.0))


def test_local_errors():
    with pytest.raises(ValueError, match=r"\[local\] the name of a parameter of .* is required, but got 'y'"):
        weft.local(lambda x: x, inputs={"y": ROWS}, outputs=ROWS)

    def program(mesh):
        x = weft.distribute_tensor(torch.ones(4, 4), mesh, ROWS)
        with pytest.raises(ValueError, match=r"\[local\] a layout is required for every distributed tensor, but got none for 'b'"):
            weft.local(lambda a, b: a + b, inputs={"a": ROWS}, outputs=ROWS)(x, x)

    on_ranks(program)
