"""The decoder of bench/python_decoder.py as PyTorch itself distributes it over tensor-parallel ranks: written by hand, with
bare collectives of torch.distributed around linears that hold a shard of their weight, with and without sequence
parallelism, and by DTensor's parallelize_module."""

import torch
import torch.distributed as dist
from python_decoder import COLWISE, ROWWISE
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
    """The shards of all ranks, concatenated along a dim."""
    shards = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(shards, x.contiguous())
    return torch.cat(shards, dim)


def own_shard(x, dim):
    return x.chunk(dist.get_world_size(), dim)[dist.get_rank()].contiguous()


def summed_shard(x, dim):
    """This rank's shard of the sum over ranks."""
    chunks = torch.cat(x.chunk(dist.get_world_size(), dim), 0)
    shard = torch.empty_like(own_shard(x, dim))
    dist.reduce_scatter_tensor(shard.view(-1), chunks.view(-1))
    return shard


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
enter_replicated = function("EnterReplicated", lambda x: x.view_as(x), summed)
leave_replicated = function("LeaveReplicated", summed, lambda gradient: gradient)
enter_sequence = function("EnterSequence", lambda x: gathered(x, SEQUENCE), lambda gradient: summed_shard(gradient, SEQUENCE))
leave_sequence = function("LeaveSequence", lambda x: summed_shard(x, SEQUENCE), lambda gradient: gathered(gradient, SEQUENCE))
shard_sequence = function("ShardSequence", lambda x: own_shard(x, SEQUENCE), lambda gradient: gathered(gradient, SEQUENCE))
gather_features = function(
    "GatherFeatures", lambda x: gathered(x, FEATURES), lambda gradient: own_shard(gradient, FEATURES)
)


class Parallel(nn.Module):
    """A module whose linears hold a shard of their weight: inputs enter once, outputs are added up or gathered."""

    def __init__(self, module, enter, leave):
        super().__init__()
        self.module = module
        self.enter = enter
        self.leave = leave

    def forward(self, x):
        return self.leave(self.module(self.enter(x)))


def shard_linears(model):
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if last in COLWISE + ROWWISE:
            module.weight = nn.Parameter(own_shard(module.weight.data, 0 if last in COLWISE else 1).clone())


def to_megatron(model, sequence=False):
    """The model, and what is to be done between backward and the optimizer's step."""
    enter, leave = (enter_sequence, leave_sequence) if sequence else (enter_replicated, leave_replicated)
    shard_linears(model)
    for block in model.blocks:
        block.attention = Parallel(block.attention, enter, leave)
        block.feed_forward = Parallel(block.feed_forward, enter, leave)
    model.logits = Parallel(model.logits, enter, gather_features)
    if not sequence:
        return model, lambda: None
    model.tokens = Parallel(model.tokens, lambda x: x, shard_sequence)
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
        if last in COLWISE:
            plan[name] = ColwiseParallel(output_layouts=Replicate()) if last == "logits" else ColwiseParallel()
        elif last in ROWWISE:
            plan[name] = RowwiseParallel()
    return parallelize_module(model, init_device_mesh("cpu", (dist.get_world_size(),)), plan)
