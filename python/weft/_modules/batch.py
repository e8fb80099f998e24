"""shard_batch: data parallelism for programs that give every rank the same batch, as transformers' Trainer does."""

from __future__ import annotations

import torch
from torch import nn

from weft import _C, _containers
from weft._modules.distribute import check_module


def shard_batch(module: nn.Module, device_mesh: _C.DeviceMesh | None = None, mesh_dim: str = "dp") -> nn.Module:
    """Shards the plain inputs of a parallelised module along their first dim over a mesh dim, before its forward.

        mesh = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        weft.parallelize_module(model, mesh, plan)
        weft.shard_batch(model, mesh)     # model(tokens), with the same tokens on every rank

    The inputs are the same on every rank, as plain tensors are in the forward of a parallelised module, so nothing is
    communicated: each rank takes its rows. A tensor whose first dim differs from that of the first input stays as it is.
    Outputs of one element, as the loss, are replicated, so that every rank may log them.
    """
    check_module("shard_batch", module)
    mesh = _C.current_mesh("shard_batch", device_mesh)
    sharded = mesh.mesh_dim_names.index(mesh_dim) if mesh_dim in mesh.mesh_dim_names else None
    if sharded is None:
        raise ValueError(f"[shard_batch] a dim of the mesh is required, one of {mesh.mesh_dim_names}, but got {mesh_dim!r}.")
    placements = [_C.parse_placement("S(0)" if m == sharded else "R") for m in range(mesh.ndim)]

    def shard(module, args, kwargs):
        tensors = [each for each in _containers.leaves((args, kwargs)) if isinstance(each, torch.Tensor) and each.dim()]
        rows = tensors[0].shape[0] if tensors else 0

        def own_rows(value):
            is_batch = isinstance(value, torch.Tensor) and value.dim() and value.shape[0] == rows
            if not is_batch or _C.is_dtensor(value):
                return value
            return _C.distribute_tensor(value, mesh, placements, src_data_rank=None)

        return _containers.mapped(own_rows, (args, kwargs))

    def replicate_numbers(module, inputs, outputs):
        def replicated(value):
            is_number = _C.is_dtensor(value) and value.numel() == 1
            if not is_number or all(placement.is_replicate() for placement in _C.placements(value)):
                return value
            # The program may write to it (loss *= 2), and no view made by a redistribution allows that.
            return _C.redistribute(value, mesh, [_C.parse_placement("R")] * mesh.ndim).clone()

        return _containers.mapped(replicated, outputs)

    module.register_forward_pre_hook(shard, with_kwargs=True)
    module.register_forward_hook(replicate_numbers)
    return module
