"""The decoder of bench/python_decoder.py for torch.compile, tensor-parallel: written by hand, with functional collectives
around linears that hold a shard of their weight. Logits are gathered, as those of the other sides are."""

import torch
import torch.distributed._functional_collectives as functional
from decoder_modes import shard_linears
from torch import nn


def reduced(x, group):
    return functional.wait_tensor(functional.all_reduce(x, "sum", group))


class EnterReplicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return reduced(gradient.contiguous(), ctx.group), None


class LeaveReplicated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group):
        return reduced(x.contiguous(), group)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class GatherFeatures(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, group, rank, size):
        ctx.rank, ctx.size = rank, size
        shards = functional.wait_tensor(functional.all_gather_tensor(x.contiguous(), 0, group))
        return torch.cat(shards.chunk(size, 0), -1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.chunk(ctx.size, -1)[ctx.rank].contiguous(), None, None, None


class Parallel(nn.Module):
    """A module whose linears hold a shard of their weight: its input enters once, its output is added up or gathered."""

    def __init__(self, module, group, leave):
        super().__init__()
        self.module, self.group, self.leave = module, group, leave

    def forward(self, x):
        return self.leave(self.module(EnterReplicated.apply(x, self.group)))


def to_local(model, group):
    shard_linears(model)
    rank, size = group.rank(), group.size()

    def add_up(x):
        return LeaveReplicated.apply(x, group)

    for block in model.blocks:
        block.attention = Parallel(block.attention, group, add_up)
        block.feed_forward = Parallel(block.feed_forward, group, add_up)
    model.logits = Parallel(model.logits, group, lambda x: GatherFeatures.apply(x, group, rank, size))
    return model
