"""The decoder of bench/python_decoder.py as PyTorch itself distributes it over tensor-parallel ranks: written by hand, with
bare collectives of torch.distributed around linears that hold their part, and by DTensor's parallelize_module."""

import torch
import torch.distributed as dist
from python_decoder import COLUMN_CUT, ROW_CUT
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class EnterParallel(torch.autograd.Function):
    """The same on every rank; gradients are added up."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class LeaveParallel(torch.autograd.Function):
    """Terms on every rank, added up."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class GatherLastDim(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, -1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.chunk(dist.get_world_size(), -1)[dist.get_rank()].contiguous()


class Parallel(nn.Module):
    """A module whose linears hold their part: inputs enter once, what comes out is added up or gathered."""

    def __init__(self, module, leave):
        super().__init__()
        self.module = module
        self.leave = leave

    def forward(self, x):
        return self.leave(self.module(EnterParallel.apply(x)))


def to_megatron(model):
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if last in COLUMN_CUT + ROW_CUT:
            part = module.weight.data.chunk(dist.get_world_size(), 0 if last in COLUMN_CUT else 1)[dist.get_rank()]
            module.weight = nn.Parameter(part.clone())
    for block in model.blocks:
        block.attention = Parallel(block.attention, LeaveParallel.apply)
        block.feed_forward = Parallel(block.feed_forward, LeaveParallel.apply)
    model.logits = Parallel(model.logits, GatherLastDim.apply)
    return model


def to_dtensor(model):
    plan = {}
    for name, _ in model.named_modules():
        last = name.rpartition(".")[2]
        if last in COLUMN_CUT:
            plan[name] = ColwiseParallel(output_layouts=Replicate()) if last == "logits" else ColwiseParallel()
        elif last in ROW_CUT:
            plan[name] = RowwiseParallel()
    return parallelize_module(model, init_device_mesh("cpu", (dist.get_world_size(),)), plan)
