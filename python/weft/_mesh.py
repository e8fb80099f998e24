"""Meshes made from meshes: slicing by names, joining and splitting dims. A mesh that stands on process groups leaves the groups
of the new mesh to torch.distributed's mesh; on ranks that are threads there are none to make."""

from __future__ import annotations

import math

from weft import _C, _groups

# What is noted with a mesh handle: {"root": the mesh it was sliced from, "flattened": {name: dims of the root}}.
_notes = _C.mesh_notes


def _root(mesh):
    return _notes(mesh).get("root", mesh)


def _dims_of_root(root, names):
    """The root's dims behind names of dims, some of which may be joined dims."""
    flattened = _notes(root).get("flattened", {})
    return tuple(dim for name in names for dim in flattened.get(name, (name,)))


def _derived(root, mesh):
    if mesh != root:
        _notes(mesh)["root"] = root
    return mesh


def _getitem(self, mesh_dim_names):
    """The mesh over the named dims, through this rank. Names that _flatten gave count too."""
    names = (mesh_dim_names,) if isinstance(mesh_dim_names, str) else tuple(mesh_dim_names)
    root = _root(self)
    flattened = _notes(root).get("flattened", {})
    if not any(name in flattened and name not in self.mesh_dim_names for name in names):
        return _derived(root, self._submesh(names))
    spanned = root._submesh(_dims_of_root(root, names))
    sizes = [math.prod(root.size(dim) for dim in _dims_of_root(root, [name])) for name in names]
    result = _derived(root, spanned._with_ranks(sizes, spanned.mesh.flatten().tolist(), names))
    of_torch = _groups.known_torch_mesh(root)
    if of_torch is not root:
        _groups.remember(result, of_torch[names])
    return result


def _flatten(self, mesh_dim_name=None, backend_override=None):
    """The mesh of one dim with the same ranks. The mesh it was sliced from gives it back by its name: mesh["dp_cp"]."""
    name = mesh_dim_name or "_".join(self.mesh_dim_names)
    if self.mesh_dim_names == (name,):
        return self
    root = _root(self)
    over = _dims_of_root(root, self.mesh_dim_names)
    flattened = _notes(root).setdefault("flattened", {})
    if name in root.mesh_dim_names or flattened.get(name, over) != over:
        raise ValueError(f"[DeviceMesh._flatten] a new name is required, but got {name!r}, which is a dim of {root} already.")
    result = self._with_ranks([self.size()], self.mesh.flatten().tolist(), [name])
    of_torch = _groups.known_torch_mesh(self)
    if of_torch is not self and of_torch.mesh_dim_names is not None:
        _groups.remember(result, of_torch._flatten(name, backend_override))
    elif backend_override is not None:
        raise ValueError(
            "[DeviceMesh._flatten] backend_override needs a mesh with names on process groups of torch.distributed, but got "
            f"{self}. Leave it out."
        )
    flattened[name] = over
    return _derived(root, result)


def _unflatten(self, dim, mesh_sizes, mesh_dim_names, backend_override=None):
    """The mesh in which one dim is split into several."""
    names, sizes = list(self.mesh_dim_names), list(self.shape)
    if isinstance(dim, str) and dim not in names or isinstance(dim, int) and not -len(names) <= dim < len(names):
        raise ValueError(f"[DeviceMesh._unflatten] a mesh dim of {self} is required, but got {dim!r}.")
    at = names.index(dim) if isinstance(dim, str) else dim % len(names)
    if len(mesh_sizes) != len(mesh_dim_names) or math.prod(mesh_sizes) != sizes[at]:
        raise ValueError(
            f"[DeviceMesh._unflatten] as many sizes as names, with the product {sizes[at]}, are required, but got "
            f"{tuple(mesh_sizes)} and {tuple(mesh_dim_names)}."
        )
    of_torch = _groups.known_torch_mesh(self)
    if of_torch is not self and of_torch.mesh_dim_names is not None:
        made = of_torch._unflatten(at, tuple(mesh_sizes), tuple(mesh_dim_names), backend_override)
        return _groups.converted_mesh("DeviceMesh._unflatten", made)
    names[at : at + 1], sizes[at : at + 1] = mesh_dim_names, mesh_sizes
    return self._with_ranks(sizes, self.mesh.flatten().tolist(), names)


def _concatenate(device_mesh_list):
    """The mesh over the dims of several meshes that were sliced from one."""
    root = _root(device_mesh_list[0])
    if any(_root(mesh) != root for mesh in device_mesh_list):
        raise ValueError(
            f"[DeviceMesh._concatenate] meshes sliced from one mesh are required, but got {list(device_mesh_list)}."
        )
    of_torch = [_groups.known_torch_mesh(mesh) for mesh in device_mesh_list]
    if of_torch[0] is not device_mesh_list[0]:
        return _groups.converted_mesh("DeviceMesh._concatenate", type(of_torch[0])._concatenate(of_torch))
    return _getitem(root, [name for mesh in device_mesh_list for name in mesh.mesh_dim_names])


def _get_all_submeshes(self, mesh_dim_name):
    """The meshes along one dim, through every rank."""
    at = self.mesh_dim_names.index(mesh_dim_name)
    rows = self.mesh.movedim(at, -1).reshape(-1, self.size(at))
    return [self._with_ranks([self.size(at)], row.tolist(), [mesh_dim_name]) for row in rows]


def _restored(device_type, shape, ranks, names):
    return _groups.current_world().mesh(device_type, shape, ranks, names)


def _reduce(self):
    """Pickled by its ranks and names: the copy is a mesh of the world of the process that reads it."""
    return _restored, (self.device_type, list(self.shape), self.mesh.flatten().tolist(), list(self.mesh_dim_names))


def install():
    methods = {
        "__getitem__": _getitem,
        "_flatten": _flatten,
        "_unflatten": _unflatten,
        "_concatenate": staticmethod(_concatenate),
        "_get_all_submeshes": _get_all_submeshes,
        "_get_root_mesh": _root,
        "_is_current_rank_part_of_mesh": lambda self: self.get_coordinate() is not None,
        "__reduce__": _reduce,
    }
    for name, method in methods.items():
        setattr(_C.DeviceMesh, name, method)
