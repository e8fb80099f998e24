"""Operators that torch runs in another way where no gradient is wanted."""

import pytest
import torch
import torch.nn.functional as F
from weft import Replicate, Shard

X = torch.arange(192.0).reshape(4, 6, 8).sin()


@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Shard(2), Replicate()])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_max_pool1d(expect_as_plain, placement, mode):
    def program(D):
        with mode():
            return (
                F.max_pool1d(D(X), 2),
                F.max_pool1d(D(X), 3, stride=2, padding=1, ceil_mode=True),
                F.max_pool1d(D(X).requires_grad_(), 2, dilation=2),
            )

    expect_as_plain(program, placement)
    expect_as_plain(lambda D: F.max_pool1d(D(X[0]), 2), Shard(0))
