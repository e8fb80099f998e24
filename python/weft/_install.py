"""weft.install(): PyTorch's public names of distributed tensors become Weft's, for code that is not changed at all."""

from __future__ import annotations

import importlib
import sys
import types
from typing import Any

import torch

_TENSOR_NAMES = (
    "DTensor DeviceMesh Partial Placement Replicate Shard _StridedShard distribute_module distribute_tensor empty full "
    "init_device_mesh ones rand randn zeros"
).split()
_STYLE_NAMES = (
    "ColwiseParallel ParallelStyle PrepareModuleInput PrepareModuleInputOutput PrepareModuleOutput RowwiseParallel "
    "SequenceParallel"
).split()

# Module -> the names in it that become Weft's. Names that Weft does not have stay PyTorch's, and so do all internal modules.
_NAMES = {
    "torch.distributed": ["DeviceMesh", "init_device_mesh"],
    "torch.distributed.device_mesh": ["DeviceMesh", "init_device_mesh"],
    "torch.distributed.tensor": _TENSOR_NAMES,
    "torch.distributed._tensor": _TENSOR_NAMES,  # the older name of torch.distributed.tensor
    "torch.distributed.tensor.device_mesh": ["DeviceMesh", "init_device_mesh"],
    "torch.distributed.tensor.placement_types": ["Partial", "Placement", "Replicate", "Shard", "_StridedShard"],
    "torch.distributed.tensor.parallel": [*_STYLE_NAMES, "loss_parallel", "parallelize_module"],
    "torch.distributed.tensor.parallel.api": ["parallelize_module"],
    "torch.distributed.tensor.parallel.loss": ["loss_parallel"],
    "torch.distributed.tensor.parallel.style": _STYLE_NAMES,
    "torch.distributed.tensor.experimental": ["implicit_replication", "local_map", "register_sharding"],
    "torch.distributed.tensor.debug": ["CommDebugMode", "visualize_sharding"],
}
_RENAMED = {"_StridedShard": "StridedShard"}

_changed: list[types.ModuleType] = []


class _Name:
    """An attribute of a module's class, which hides the one in the module's dict: Weft's object, except for torch's own
    modules, which rely on PyTorch's. Those that hold the module object or import from it later see this too."""

    def __init__(self, name, value):
        self.name = name
        self.value = value

    def __get__(self, module, owner=None):
        importer = sys._getframe(1).f_globals.get("__name__", "")
        is_torch = importer.startswith("torch.") and not importer.startswith("torch.testing.")
        return vars(module)[self.name] if is_torch else self.value

    def __set__(self, module, value):
        self.value = value


def install() -> None:
    """Makes the public names of torch.distributed.tensor (with .parallel, .experimental, .debug, .placement_types) and of
    torch.distributed.device_mesh Weft's, until uninstall().

        weft.install()
        from torch.distributed.tensor import DTensor, Shard, distribute_tensor    # Weft's

    Call it before the imports of the program: what was imported by `from` earlier stays PyTorch's.
    """
    import weft

    if _changed:
        return
    if not torch.distributed.is_available():
        raise RuntimeError(
            "[install] a torch with torch.distributed is required, but this one was built without. Import weft's own names."
        )
    for module_name, names in _NAMES.items():
        module = importlib.import_module(module_name)
        own = {name: getattr(weft, _RENAMED.get(name, name), None) for name in names if hasattr(module, name)}
        hiding = {name: _Name(name, value) for name, value in own.items() if value is not None}
        module.__class__ = type("ModuleOnWeft", (types.ModuleType,), hiding)
        _changed.append(module)


def uninstall() -> None:
    """Gives PyTorch its own names back. What was imported by `from` in between stays Weft's."""
    while _changed:
        _changed.pop().__class__ = types.ModuleType


def original(module_name: str, name: str) -> Any:
    """PyTorch's own object, whether Weft is installed or not."""
    return vars(importlib.import_module(module_name))[name]
