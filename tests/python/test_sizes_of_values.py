"""Operators whose results are as large as their values say."""

import pytest
import torch
from weft import Replicate, Shard

X = torch.arange(20.0).reshape(5, 4)
REPEATS = torch.tensor([1, 2, 0, 1, 3])


def masked_set(D):
    x = D(X)
    x[x > 3] = 0.0
    return x


def gradient_of_a_masked_read(D):
    x = D(X).requires_grad_()
    (x[x > 3] ** 2).sum().backward()
    return x.grad


def gradients_of_a_masked_write(D):
    x, values = D(X).requires_grad_(), D(torch.tensor([3.0, 2.0, 1.0]), Replicate()).requires_grad_()
    mask = D(X)[:, 0] > 7
    (x.index_put((mask, D(torch.tensor([0, 1, 2]), Replicate())), values) ** 2).sum().backward()
    return x.grad, values.grad


@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Replicate()])
@pytest.mark.parametrize(
    "program",
    [
        lambda D: D(X)[D(X) > 3],
        lambda D: D(X)[D(X)[:, 0] > 3],
        lambda D: D(X)[D(X)[:, 0] > 3, 1],
        lambda D: D(X)[D(torch.tensor([1, 0, 1, 0, 1], dtype=torch.uint8), Replicate())],
        masked_set,
        gradient_of_a_masked_read,
        gradients_of_a_masked_write,
        lambda D: torch.repeat_interleave(D(REPEATS, Replicate())),
        lambda D: torch.repeat_interleave(D(X), D(REPEATS, Replicate()), dim=0),
        lambda D: torch.repeat_interleave(D(X), D(REPEATS, Replicate()), dim=0, output_size=7),
    ],
)
@pytest.mark.filterwarnings("ignore:.*no sharding rule", "ignore:indexing with dtype torch.uint8")
def test_as_on_a_single_device(expect_as_plain, program, placement):
    expect_as_plain(program, placement)
