"""Embedding bags with distributed tables and indices: values and gradients of a single device."""

import pytest
import torch
from torch import nn
from weft import Replicate, Shard

torch.manual_seed(2)
TABLE, WEIGHTS = torch.randn(6, 4), torch.rand(6)
INDICES, OFFSETS = torch.tensor([0, 1, 5, 2, 3, 5]), torch.tensor([0, 2, 2, 6])
OPTIONS = {"": {}, "padded": {"padding_idx": 1}, "with the last offset": {"include_last_offset": True}}


@pytest.mark.parametrize("indices", [Replicate(), Shard(0)], ids=str)
@pytest.mark.parametrize("table", [Replicate(), Shard(0), Shard(1)], ids=str)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags(expect_as_plain, mode, options, table, indices):
    def program(D):
        bag = nn.EmbeddingBag(6, 4, mode=mode, **OPTIONS[options])
        bag.weight = nn.Parameter(D(TABLE, table))
        results = [bag(D(INDICES, indices), D(OFFSETS, Replicate()))]
        if options != "with the last offset":
            results.append(bag(D(INDICES.view(2, 3), indices)))
        weights = D(WEIGHTS, Replicate()).requires_grad_()
        if mode == "sum":
            results.append(bag(D(INDICES, indices), D(OFFSETS, Replicate()), per_sample_weights=weights))
        sum(each.square().sum() for each in results).backward()
        return [*results, bag.weight.grad, *([weights.grad] if mode == "sum" else [])]

    expect_as_plain(program, table)
