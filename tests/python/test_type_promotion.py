"""Numbers combined with partial tensors: the dtype is that of a single device, on every rank."""

import operator

import pytest
import torch
import weft
from weft import Partial, Replicate, Shard

NUMBERS = [2, 2.5, True, 1 + 2j]
OPERATORS = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.pow,
    torch.rsub,
    lambda x, n: torch.where(x == 2, x, n),
    lambda x, n: torch.lerp(x, x * x, n),
    lambda x, n: torch.addcmul(x, x, x, value=n),
    lambda x, n: torch.clamp(x, min=n),
    lambda x, n: torch.maximum(torch.as_tensor(x), torch.as_tensor(n)),
]
REDUCTIONS = {
    "sum": lambda terms: terms.sum(0),
    "avg": lambda terms: terms.mean(0),
    "max": lambda terms: terms.amax(0),
    "min": lambda terms: terms.amin(0),
    "product": lambda terms: terms.prod(0),
}


def result_or_none(function, *arguments):
    try:
        return function(*arguments)
    except (RuntimeError, TypeError):
        return None


@pytest.mark.parametrize("shape", [(), (4,)])
@pytest.mark.parametrize(
    "reduction, dtype",
    [
        (reduction, dtype)
        for reduction in REDUCTIONS
        for dtype in (torch.float32, torch.float64, torch.int64)
        if reduction != "avg" or dtype.is_floating_point  # P(avg) of integers is refused
    ],
)
def test_the_dtype_with_a_number_is_that_of_a_single_device(reduction, dtype, shape):
    generator = torch.Generator().manual_seed(0)
    terms = torch.randint(1, 4, (3, *shape), generator=generator).to(dtype)
    plain = REDUCTIONS[reduction](terms)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (3,))
        x = weft.from_local(terms[rank], mesh, [Partial(reduction)])
        for function in OPERATORS:
            for number in NUMBERS:
                for arguments, expected in (
                    ((x, number), result_or_none(function, plain, number)),
                    ((number, x), result_or_none(function, number, plain)),
                ):
                    if expected is None:
                        continue
                    actual = function(*arguments)
                    assert actual.dtype == actual.to_local().dtype == expected.dtype
                    torch.testing.assert_close(actual.full_tensor(), expected)

    weft.run_on_ranks(3, rank_program)


def test_a_loss_with_a_number_added_has_a_gradient():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        w = weft.distribute_tensor(torch.arange(4.0), mesh, [Shard(0)]).requires_grad_()
        loss = (w * w).sum() + 1e-3
        assert loss.to_local().dtype == torch.float32
        loss.backward()
        assert torch.equal(w.grad.full_tensor(), 2 * torch.arange(4.0))

    weft.run_on_ranks(2, rank_program)


@pytest.mark.parametrize("number", [1, 1.5])
def test_a_number_is_added_to_an_average_without_reducing_it(number):
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = weft.from_local(torch.full((2,), float(rank)), mesh, [Partial("avg")])
        for y in (x + number, number + x, x.clone().add_(number)):
            assert y.placements == (Partial("avg"),)
            assert torch.equal(y.full_tensor(), torch.full((2,), 0.5 + number))
        integers = weft.distribute_tensor(torch.arange(2), mesh, [Replicate()])
        assert torch.equal((integers + x).full_tensor(), torch.tensor([0.5, 1.5]))

    weft.run_on_ranks(2, rank_program)
