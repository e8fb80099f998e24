"""weft.install(): code written for torch.distributed.tensor runs on Weft, unchanged.

DTensor and the functions that make and change distributed tensors become Weft's. What only describes them stays PyTorch's:
placements, styles and meshes of process groups. Weft takes these everywhere, and gives them back as t.placements,
t.device_mesh and t._spec while it is installed, so that code may compare them and pass them on to other parts of PyTorch.
"""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import torch

_FACTORIES = ["empty", "full", "ones", "rand", "randn", "zeros"]
_DEFINED = ["DTensor", "distribute_module", "distribute_tensor", *_FACTORIES]
_TENSORS = [*_DEFINED, "init_device_mesh"]

# Module -> the names in it that become Weft's. Programs import them from the private modules that define them too.
_NAMES = {
    "torch.distributed": ["init_device_mesh"],
    "torch.distributed.device_mesh": ["init_device_mesh"],
    "torch.distributed.tensor": _TENSORS,
    "torch.distributed._tensor": _TENSORS,  # the older name of torch.distributed.tensor
    "torch.distributed._tensor.api": _DEFINED,
    "torch.distributed.tensor._api": _DEFINED,
    "torch.distributed.tensor._utils": ["ExplicitRedistributionContext"],
    "torch.distributed.tensor.device_mesh": ["init_device_mesh"],
    "torch.distributed.tensor.parallel": ["loss_parallel"],
    "torch.distributed.tensor.parallel.loss": ["loss_parallel"],
    "torch.distributed.tensor.experimental": ["context_parallel", "implicit_replication", "local_map", "register_sharding"],
    "torch.distributed.tensor.experimental._func_map": ["local_map"],
    "torch.distributed.tensor.experimental._register_sharding": ["register_sharding"],
    "torch.distributed.tensor.debug": ["CommDebugMode", "visualize_sharding"],
    "torch.distributed.tensor.debug._visualize_sharding": ["visualize_sharding"],
}

# PyTorch's styles, parallelize_module, input_reshard and fully_shard are written in terms of these.
_PARALLEL = "torch.distributed.tensor.parallel"
_FULLY_SHARD = "torch.distributed.fsdp._fully_shard"
_USED_BY_TORCH = {
    f"{_PARALLEL}.style": ["DTensor", "distribute_module", "distribute_tensor"],
    f"{_PARALLEL}.input_reshard": ["DTensor"],
    **{f"{_FULLY_SHARD}.{name}": ["DTensor"] for name in ("_fsdp_collectives", "_fsdp_common", "_fsdp_init", "_fsdp_param")},
}

_changed: list[types.ModuleType] = []
_replaced: dict[str, dict[str, Any]] = {}  # module -> PyTorch's objects that install() replaced in its dict


class _Name:
    """An attribute of a module's class, which hides the one in the module's dict: Weft's object, except for torch's own
    modules, which rely on PyTorch's. It holds for modules that have the module object or import from it later too."""

    def __init__(self, name, value):
        self.name = name
        self.value = value

    def __get__(self, module, owner=None):
        importer = sys._getframe(1).f_globals.get("__name__", "")
        is_torch = importer.startswith("torch.") and not importer.startswith("torch.testing.")
        return vars(module)[self.name] if is_torch else self.value

    def __set__(self, module, value):
        self.value = value


def _init_device_mesh(device_type, mesh_shape, *, mesh_dim_names=None, backend_override=None):
    """PyTorch's, of process groups; Weft's on ranks that are threads."""
    import weft

    own = weft._C.in_world_scope()
    function = weft.init_device_mesh if own else original("torch.distributed.device_mesh", "init_device_mesh")
    return function(device_type, mesh_shape, mesh_dim_names=mesh_dim_names, backend_override=backend_override)


def _context_parallel(mesh, *, buffers=None, **options):
    """PyTorch's, which shards plain tensors and computes with PyTorch's DTensor."""
    import weft

    for buffer in buffers or []:
        if weft.is_dtensor(buffer):
            raise NotImplementedError(
                f"[context_parallel] plain buffers are required, but got {weft.spec(buffer)}. Attention on tensors that are "
                "sharded over the sequence needs no context: call it as it is."
            )
    return original("torch.distributed.tensor.experimental", "context_parallel")(mesh, buffers=buffers, **options)


def _let_torch_find_its_class():
    """Torch's C++ code looks PyTorch's DTensor up by its name when Python first dispatches an operator, and keeps the class."""

    class Dispatched(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return torch.empty(0)

    torch.Tensor._make_subclass(Dispatched, torch.empty(0)).neg()


def install() -> None:
    """Makes torch.distributed.tensor (with .parallel, .experimental and .debug) Weft's, until uninstall().

        weft.install()
        from torch.distributed.tensor import DTensor, Shard, distribute_tensor

    Call it before the imports of the program: what was imported by `from` earlier stays PyTorch's.
    """
    import weft
    from weft import _attributes

    if _changed:
        return
    if not torch.distributed.is_available():
        raise RuntimeError(
            "[install] a torch with torch.distributed is required, but this one was built without. Import weft's own names."
        )
    _let_torch_find_its_class()
    own = {name: getattr(weft, name) for name in weft.__all__}
    own |= {"init_device_mesh": _init_device_mesh, "context_parallel": _context_parallel}
    for module_name, names in _NAMES.items():
        module = importlib.import_module(module_name)
        hiding = {name: _Name(name, own[name]) for name in names if name in own and hasattr(module, name)}
        module.__class__ = type("ModuleOnWeft", (types.ModuleType,), hiding)
        _changed.append(module)
    for module_name, names in _USED_BY_TORCH.items():
        held = vars(importlib.import_module(module_name))
        _replaced[module_name] = {name: held[name] for name in names}
        held.update({name: own[name] for name in names})
    _attributes.give_torch_objects(True)


def uninstall() -> None:
    """Gives PyTorch its own names back. What was imported by `from` in between stays Weft's."""
    from weft import _attributes

    if not _changed:
        return
    _attributes.give_torch_objects(False)
    while _replaced:
        module_name, objects = _replaced.popitem()
        vars(importlib.import_module(module_name)).update(objects)
    while _changed:
        _changed.pop().__class__ = types.ModuleType


def is_installed() -> bool:
    return bool(_changed)


def original(module_name: str, name: str) -> Any:
    """PyTorch's own object, whether Weft is installed or not."""
    return vars(importlib.import_module(module_name))[name]
