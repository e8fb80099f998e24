"""The decoder of bench/python_decoder.py as PyTorch itself distributes it over tensor-parallel ranks: written by hand, with
bare collectives of torch.distributed around linears that hold their part, with and without sequence parallelism, and by
DTensor's parallelize_module."""

import torch
import torch.distributed as dist
from python_decoder import COLUMN_CUT, ROW_CUT
from torch import nn
from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


def summed(x):
    x = x.contiguous()
    dist.all_reduce(x)
    return x


def gathered(x, dim):
    """Everybody's parts, one behind the other along a dim."""
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts, dim)


def own_part(x, dim):
    return x.chunk(dist.get_world_size(), dim)[dist.get_rank()].contiguous()


def summed_part(x, dim):
    """This rank's part of the sum."""
    pieces = torch.cat(x.chunk(dist.get_world_size(), dim), 0)
    part = torch.empty_like(own_part(x, dim))
    dist.reduce_scatter_tensor(part.view(-1), pieces.view(-1))
    return part


def function(name, forward, backward):
    """An autograd function of one tensor."""
    return type(
        name,
        (torch.autograd.Function,),
        {
            "forward": staticmethod(lambda ctx, x: forward(x)),
            "backward": staticmethod(lambda ctx, gradient: backward(gradient)),
        },
    ).apply


SEQUENCE, FEATURES = 1, -1
enter_whole = function("EnterWhole", lambda x: x.view_as(x), summed)
leave_whole = function("LeaveWhole", summed, lambda gradient: gradient)
enter_cut = function("EnterCut", lambda x: gathered(x, SEQUENCE), lambda gradient: summed_part(gradient, SEQUENCE))
leave_cut = function("LeaveCut", lambda x: summed_part(x, SEQUENCE), lambda gradient: gathered(gradient, SEQUENCE))
cut_sequence = function("CutSequence", lambda x: own_part(x, SEQUENCE), lambda gradient: gathered(gradient, SEQUENCE))
gather_features = function(
    "GatherFeatures", lambda x: gathered(x, FEATURES), lambda gradient: own_part(gradient, FEATURES)
)


class Parallel(nn.Module):
    """A module whose linears hold their part: inputs enter once, what comes out is added up or gathered."""

    def __init__(self, module, enter, leave):
        super().__init__()
        self.module = module
        self.enter = enter
        self.leave = leave

    def forward(self, x):
        return self.leave(self.module(self.enter(x)))


def cut_linears(model):
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if last in COLUMN_CUT + ROW_CUT:
            module.weight = nn.Parameter(own_part(module.weight.data, 0 if last in COLUMN_CUT else 1).clone())


def to_megatron(model, sequence=False):
    """The model, and what is to be done between backward and the optimizer's step."""
    enter, leave = (enter_cut, leave_cut) if sequence else (enter_whole, leave_whole)
    cut_linears(model)
    for block in model.blocks:
        block.attention = Parallel(block.attention, enter, leave)
        block.feed_forward = Parallel(block.feed_forward, enter, leave)
    model.logits = Parallel(model.logits, enter, gather_features)
    if not sequence:
        return model, lambda: None
    model.tokens = Parallel(model.tokens, lambda x: x, cut_sequence)
    norms = [parameter for name, parameter in model.named_parameters() if "norm" in name]

    def reduce_norms():
        gradients = [norm.grad for norm in norms]
        together = _flatten_dense_tensors(gradients)
        dist.all_reduce(together)
        for gradient, reduced in zip(gradients, _unflatten_dense_tensors(together, gradients)):
            gradient.copy_(reduced)

    return model, reduce_norms


def to_dtensor(model):
    plan = {}
    for name, _ in model.named_modules():
        last = name.rpartition(".")[2]
        if last in COLUMN_CUT:
            plan[name] = ColwiseParallel(output_layouts=Replicate()) if last == "logits" else ColwiseParallel()
        elif last in ROW_CUT:
            plan[name] = RowwiseParallel()
    return parallelize_module(model, init_device_mesh("cpu", (dist.get_world_size(),)), plan)
