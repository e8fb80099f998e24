"""The arguments of fully_shard: what they mean, and clear errors for those that mean nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from weft import _C, _groups


def one_of(name, value, other_name, other):
    """The value of an option that has two names."""
    if value is not None and other is not None:
        raise ValueError(
            f"[fully_shard] one of {name} and {other_name} is required, which mean the same, but got both: {value!r} and {other!r}. "
            "Leave one out."
        )
    return other if value is None else value


def precision_policy(policy):
    """A MixedPrecisionPolicy or None; a dtype is that of the gathered parameters."""
    if policy is None:
        return None
    from torch.distributed.fsdp import MixedPrecisionPolicy  # takes long to import

    if isinstance(policy, torch.dtype):
        return MixedPrecisionPolicy(param_dtype=policy)
    if not isinstance(policy, MixedPrecisionPolicy):
        raise TypeError(
            f"[fully_shard] a MixedPrecisionPolicy is required, or a dtype, for mp_policy or mixed_precision, but got {policy!r}."
        )
    return policy


def is_offloaded(policy, mesh):
    """Whether shards are kept on the CPU while the mesh is of other devices. On a mesh of the CPU they are there anyway."""
    if policy is None:
        return False
    from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy

    if not isinstance(policy, OffloadPolicy):
        raise TypeError(f"[fully_shard] an OffloadPolicy is required for offload_policy or offload, but got {policy!r}.")
    return isinstance(policy, CPUOffloadPolicy) and mesh.device_type != "cpu"


def check_reshard_after_forward(value, mesh, mesh_dim):
    if not isinstance(value, int | None):
        raise TypeError(
            f"[fully_shard] True, False or a number of ranks is required for reshard_after_forward, but got {value!r}."
        )
    size = mesh.size(mesh_dim)
    if _is_number(value) and (value < 1 or size % value != 0):
        raise ValueError(
            f"[fully_shard] True, False or a number of ranks that divides the size of mesh dim {mesh_dim}, {size}, is required for "
            f"reshard_after_forward, but got {value}."
        )


def _is_number(value):
    return isinstance(value, int) and not isinstance(value, bool)


def set_reshard_after_forward(unit, value, size):
    """Over one rank is not at all, and over all is as without a number."""
    if _is_number(value) and 1 < value < size:
        unit.set_reshard_to(value)
    elif value is not None:
        unit.set_reshard_after_forward(value if isinstance(value, bool) else value > 1)


def ignored(parameters: Iterable[nn.Parameter] | None) -> set[int]:
    """The ids of parameters that stay as they are."""
    if isinstance(parameters, torch.Tensor) or not isinstance(parameters or (), Iterable):
        raise TypeError(f"[fully_shard] a set of parameters is required for ignored_params, but got {type(parameters).__name__}.")
    for each in parameters or ():
        if not isinstance(each, nn.Parameter):
            raise TypeError(f"[fully_shard] a set of parameters is required for ignored_params, but got {each!r} among them.")
    return {id(each) for each in parameters or ()}


def sharded_dim(shard_placement_fn: Callable[[nn.Parameter], Any] | None, name: str, parameter: nn.Parameter) -> int:
    """The dim along which a parameter is sharded: its first one unless the function asks for another."""
    asked = None if shard_placement_fn is None else shard_placement_fn(parameter)
    if asked is None:
        return 0
    ndim = parameter.dim()
    by_dim = {_C.Shard(dim): dim % ndim for dim in range(-ndim, ndim)}
    dim = by_dim.get(_C.placement(asked)) if hasattr(asked, "is_shard") else None
    if dim is None:
        raise NotImplementedError(
            "[fully_shard] None or Shard(dim) with a dim of the parameter is required of shard_placement_fn, on the mesh that "
            f"fully_shard was given, but got {asked!r} for '{name}' of shape {tuple(parameter.shape)}. Call fully_shard for a module of "
            "its own where another mesh is meant; shards may be uneven, so that any size can be sharded over any number of ranks."
        )
    return dim


def mesh_or_world(mesh, mesh_dim):
    """The mesh that is given, or that of `with mesh:`, or one over all ranks."""
    if mesh is not None or _C.has_current_mesh():
        return _C.current_mesh("fully_shard", mesh)
    device = torch.accelerator.current_accelerator()
    size = _groups.current_world().size
    return _groups.init_device_mesh("cpu" if device is None else device.type, (size,), mesh_dim_names=(mesh_dim or "dp",))


def dims_of(mesh, mesh_dim, replicate_dim, dp_mesh_dims):
    """The names of the mesh dims of shards and of replicas; `dp_mesh_dims` is PyTorch's way to say them."""
    if dp_mesh_dims is not None:
        if mesh_dim is not None or replicate_dim is not None:
            raise ValueError(
                f"[fully_shard] one of dp_mesh_dims and mesh_dim is required, but got {dp_mesh_dims!r}, {mesh_dim!r} and "
                f"{replicate_dim!r}. Leave one out."
            )
        mesh_dim, replicate_dim = dp_mesh_dims.shard, dp_mesh_dims.replicate
        for each in (mesh_dim, replicate_dim):
            if not isinstance(each, str | None) or mesh_dim is None:
                raise NotImplementedError(
                    f"[fully_shard] one mesh dim of shards and at most one of replicas is required, but got {dp_mesh_dims!r}. Join "
                    "several with mesh[...]._flatten(), and give that name."
                )
    return _C.shard_dims(mesh, mesh_dim, replicate_dim)
