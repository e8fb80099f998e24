"""What torch refuses for the values or the memory of the global tensor, every rank refuses."""

import pytest
import torch
from weft import Replicate, Shard

P = torch.linspace(0, 1, 12).reshape(6, 2)  # over three ranks; only one of them holds what is wrong below


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.copy_(x.clone()),
        lambda x: x.cumsum_(0),
        lambda x: x.uniform_(),
        lambda x: torch.add(x, 1, out=x),
        lambda x: torch._foreach_add_([x], 1),
    ],
)
def test_expanded_tensors_are_not_written_to(expect_as_plain, write):
    row = torch.zeros(1, 4)  # 4 over 3 ranks: the last shard is empty
    expect_as_plain(lambda D: write(D(row).expand(6, 4)), Shard(1), error="but got the expanded")


def test_expanded_tensors_are_filled(expect_as_plain):
    expect_as_plain(lambda D: D(torch.zeros(1, 4)).expand(6, 4).fill_(2), Shard(1))


@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Replicate()])
@pytest.mark.parametrize(
    "draw, error",
    [
        (lambda D: torch.bernoulli(D(P * 1.1)), "probabilities in"),
        (lambda D: torch.bernoulli(D(P * float("nan"))), "probabilities in"),
        (lambda D: D(P).bernoulli_(D(P - 0.1)), "probabilities in"),
        (lambda D: torch.normal(D(P), D(P - 0.1)), "standard deviations of at least 0"),
        (lambda D: torch.normal(0.0, D(P - 0.1)), "standard deviations of at least 0"),
        (lambda D: torch.normal(D(P), -1.0), "standard deviation of at least 0"),
    ],
)
def test_probabilities_and_deviations(expect_as_plain, draw, error, placement):
    expect_as_plain(draw, placement, error=error)


@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Replicate()])
def test_the_largest_and_smallest_probabilities_are_none_of_them(expect_as_plain, placement):
    expect_as_plain(lambda D: torch.bernoulli(D(P).round()), placement)
