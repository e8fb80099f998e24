"""Variances of complex numbers are real."""

import pytest
import torch
from weft import Replicate, Shard

X = torch.complex(torch.arange(20.0).sin(), torch.arange(20.0).cos()).reshape(5, 4)


def gradients(D):
    x = D(X).requires_grad_()
    (x.var(0).sum() + torch.std_mean(x, 1)[0].sum()).backward()
    return x.grad


@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Replicate()])
@pytest.mark.parametrize(
    "program",
    [
        lambda D: D(X).var(0),
        lambda D: D(X).std(1, keepdim=True, correction=0),
        lambda D: D(X).to(torch.complex128).var(),
        lambda D: torch.var_mean(D(X), 0),
        lambda D: torch.std_mean(D(X), (0, 1), keepdim=True),
        gradients,
    ],
)
def test_as_on_a_single_device(expect_as_plain, program, placement):
    expect_as_plain(program, placement)
