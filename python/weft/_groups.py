"""What meshes communicate through: ranks as threads, process groups of torch.distributed, or Weft's own connections."""

from __future__ import annotations

import itertools
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import torch

from weft import _C
from weft._install import original

_lock = threading.Lock()
_world_of_group = weakref.WeakKeyDictionary()  # the default group of torch.distributed -> World
_torch_meshes = {}  # DeviceMesh -> torch.distributed.DeviceMesh
_converted = weakref.WeakKeyDictionary()  # torch.distributed.DeviceMesh -> World, DeviceMesh


def _distributed():
    """torch.distributed where it is initialised and this thread is not a rank of its own; else None."""
    distributed = sys.modules.get("torch.distributed")
    if _C.in_world_scope() or distributed is None or not distributed.is_available():
        return None
    return distributed if distributed.is_initialized() else None


def _torch_mesh_class():
    return original("torch.distributed.device_mesh", "DeviceMesh")


def current_world():
    """The world that a mesh made now belongs to."""
    distributed = _distributed()
    return _C.current_world() if distributed is None else _world_of_torch(distributed)


def _world_of_torch(distributed):
    # One world per default group, so that equal meshes are equal and a group is connected once.
    group = distributed.group.WORLD
    with _lock:
        world = _world_of_group.get(group)
        if world is None and distributed.get_backend(group) == "fake":
            world = _C.fake_world(distributed.get_world_size(), distributed.get_rank())
            _world_of_group[group] = world
        elif world is None:
            store = torch._C._distributed_c10d.PrefixStore(
                "weft", distributed.distributed_c10d._get_default_store()
            )
            world = _C.torch_world(store, distributed.get_rank(), distributed.get_world_size())
            _world_of_group[group] = world
    return world


def make_mesh(device_type, mesh, mesh_dim_names=None, backend_override=None):
    """The mesh of an array of ranks, over the current world."""
    ranks = torch.as_tensor(mesh, dtype=torch.int64, device="cpu")
    if ranks.dim() == 0:
        raise ValueError(f"[DeviceMesh] an array of ranks is required, but got the number {int(ranks)}. Write [{int(ranks)}].")
    names = list(mesh_dim_names or ())
    distributed = _distributed()
    if distributed is None:
        if backend_override is not None:
            raise ValueError(
                "[DeviceMesh] backend_override needs the process groups of torch.distributed, which is not initialised. "
                "Call torch.distributed.init_process_group first, or leave it out."
            )
        return _C.current_world().mesh(device_type, list(ranks.shape), ranks.flatten().tolist(), names)
    # Checked first: a mesh that cannot be must not make groups.
    world = _world_of_torch(distributed)
    result = world.mesh(device_type, list(ranks.shape), ranks.flatten().tolist(), names)
    # Process groups are never given back by torch.distributed: a mesh that is made again stands on those it has.
    if result in _torch_meshes and backend_override is None:
        return result
    from torch.distributed.device_mesh import _normalize_backend_override

    if backend_override is not None:
        backend_override = tuple(_normalize_backend_override(backend_override, ranks.dim(), mesh_dim_names))
    torch_mesh = _torch_mesh_class()(
        device_type, ranks, mesh_dim_names=tuple(names) or None, backend_override=backend_override
    )
    return converted_mesh("DeviceMesh", torch_mesh)


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: dict[int | str, Any] | None = None,
) -> _C.DeviceMesh:
    """A mesh over the first ranks, in row-major order.

        mesh = weft.init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))

    It stands on the process groups of torch.distributed where that is initialised; inside run_on_ranks on the threads;
    otherwise on what the launcher (torchrun, mpirun) says, and without one this process is the only rank. Every rank must
    make the mesh.
    """
    shape = tuple(mesh_shape)
    count = 1
    for size in shape:
        count *= size
    if count <= 0 or not shape:
        raise ValueError(f"[init_device_mesh] every mesh dim needs at least one rank, but got shape {list(shape)}.")
    return make_mesh(device_type, torch.arange(count).reshape(shape), mesh_dim_names, backend_override)


def converted_mesh(where, mesh):
    """Weft's mesh for one of torch.distributed."""
    if isinstance(mesh, _C.DeviceMesh):
        return mesh
    if "torch.distributed.device_mesh" not in sys.modules or not isinstance(mesh, _torch_mesh_class()):
        raise TypeError(
            f"[{where}] a device mesh is required, but got {type(mesh).__name__}. Make one with weft.init_device_mesh."
        )
    distributed = _distributed()
    if distributed is None:
        raise ValueError(
            f"[{where}] torch.distributed's mesh {mesh} can be used where torch.distributed is initialised, and not on ranks "
            "that are threads. Make the mesh with weft.init_device_mesh."
        )
    world = _world_of_torch(distributed)
    made_in, result = _converted.get(mesh, (None, None))
    if made_in is world:
        return result
    ranks = mesh.mesh
    names = list(mesh.mesh_dim_names or ())
    result = world.mesh(mesh.device_type, list(ranks.shape), ranks.flatten().tolist(), names)
    if result not in _torch_meshes and mesh.get_coordinate() is not None:
        for dim in range(mesh.ndim):
            _adopt_group(world, result, dim, mesh.get_group(dim))
    _torch_meshes[result] = mesh
    _converted[mesh] = world, result
    return result


def _adopt_group(world, mesh, dim, group):
    """Lets Weft's messages along a mesh dim go through a process group. Over gloo, and where the group is written in Python,
    as those of threads are, Weft connects by itself: once per direction, since on one connection sending and receiving meet.
    A fake one sends nothing."""
    device = torch.device(mesh.device_type)
    if device not in group._device_types:
        return
    backend = group._get_backend(device)
    if backend.name() not in ("gloo", "fake"):
        world.adopt(mesh, dim, backend, torch.distributed.get_process_group_ranks(group))


def entered_torch_mesh():
    """The innermost `with mesh:` of torch.distributed's meshes, or None."""
    module = sys.modules.get("torch.distributed.device_mesh")
    entered = module._mesh_resources.mesh_stack if module is not None else []
    return entered[-1] if entered else None


def known_torch_mesh(mesh):
    """torch.distributed's mesh that this one stands on; the mesh itself where there is none. Makes no groups."""
    found = _torch_meshes.get(mesh)
    return found if found is not None else _part_of_torch_mesh(mesh) or mesh


def remember(mesh, torch_mesh):
    _torch_meshes[mesh] = torch_mesh


def _part_of_torch_mesh(mesh):
    names = mesh.mesh_dim_names
    for outer, torch_outer in list(_torch_meshes.items()):
        for chosen in itertools.permutations(outer.mesh_dim_names, len(names)):
            if chosen == names and outer[chosen] == mesh:
                _torch_meshes[mesh] = torch_outer[chosen]
                return _torch_meshes[mesh]
    return None


def torch_mesh_of(mesh):
    """torch.distributed's mesh for one of Weft. Where it is not the one that this was made from, nor a part of it, all
    ranks must ask for it, since it needs groups."""
    found = _torch_meshes.get(mesh)
    if found is not None:
        return found
    if _distributed() is None:
        raise ValueError(
            f"[DeviceMesh.to_torch] process groups of torch.distributed are needed, but {mesh} was made without. Call "
            "torch.distributed.init_process_group before making the mesh."
        )
    if _part_of_torch_mesh(mesh) is None:
        _torch_meshes[mesh] = _torch_mesh_class()(mesh.device_type, mesh.mesh, mesh_dim_names=mesh.mesh_dim_names)
    return _torch_meshes[mesh]


def group_of(mesh, dim):
    """The process group along a mesh dim."""
    return torch_mesh_of(mesh).get_group(dim)


def mesh_from_group(group, device_type, mesh=None, *, mesh_dim_names=None):
    """The mesh over process groups that exist already, one per dim."""
    torch_mesh = _torch_mesh_class().from_group(group, device_type, mesh, mesh_dim_names=mesh_dim_names)
    return converted_mesh("DeviceMesh.from_group", torch_mesh)
