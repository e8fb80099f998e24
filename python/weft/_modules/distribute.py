"""distribute_module, and replacing a module's tensors by distributed ones."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

from torch import nn

from weft import _C
from weft._modules.forward import set_replicates_plain


def check_module(where, module):
    if not isinstance(module, nn.Module):
        raise TypeError(f"[{where}] an nn.Module is required, but got {type(module).__name__}.")


def place(module, name, tensor, mesh, placements, placed, src_data_rank=0):
    """Replaces a parameter or buffer by its distributed form. `placed` holds, by id, the tensors replaced before and their
    distributed forms, so that tied tensors stay tied."""
    if id(tensor) not in placed:
        distributed = _C.distribute_tensor(tensor.detach(), mesh, placements, src_data_rank=src_data_rank)
        if isinstance(tensor, nn.Parameter):
            distributed = nn.Parameter(distributed, requires_grad=tensor.requires_grad)
        placed[id(tensor)] = distributed, tensor
    owner = module._parameters if name in module._parameters else module._buffers
    owner[name] = placed[id(tensor)][0]


def replicate_what_is_plain(module, mesh, placed, src_data_rank=0):
    for tensors in (module._parameters, module._buffers):
        for name, tensor in tensors.items():
            if tensor is not None and not _C.is_dtensor(tensor):
                place(module, name, tensor, mesh, None, placed, src_data_rank)


def _taking_module(name, function):
    """A function of (module, values, mesh); one of (values, mesh), PyTorch's older form, is accepted too."""
    count = len(inspect.signature(function).parameters)
    if count == 3:
        return function
    if count == 2:
        warnings.warn(
            f"[distribute_module] {name} of (values, device_mesh) is PyTorch's older form. Write (module, values, device_mesh).",
            FutureWarning,
            stacklevel=3,
        )
        return lambda module, values, mesh: function(values, mesh)
    raise ValueError(
        f"[distribute_module] {name} must take (module, values, device_mesh), but takes {count} arguments."
    )


def distribute_module(
    module: nn.Module,
    device_mesh: _C.DeviceMesh | None = None,
    partition_fn: Callable[[str, nn.Module, _C.DeviceMesh], None] | None = None,
    input_fn: Callable[..., Any] | None = None,
    output_fn: Callable[..., Any] | None = None,
    *,
    replicate_plain: bool = True,
) -> nn.Module:
    """Makes the parameters and buffers of a module distributed.

    `partition_fn(name, submodule, mesh)` is called for every submodule and puts distributed parameters in place; what it
    leaves plain is replicated. `input_fn(module, inputs, mesh)` is called before the module's forward and may return other
    inputs, `output_fn(module, outputs, mesh)` after it.

    In the forward of the module and its submodules plain tensors among distributed ones count as replicated, unless
    `replicate_plain` is False; see weft.replicate_plain.
    """
    check_module("distribute_module", module)
    if getattr(module, "_distribute_module_applied", False):
        raise RuntimeError(
            f"[distribute_module] a module is distributed once, but this {type(module).__name__} has been already."
        )
    mesh = _C.current_mesh("distribute_module", device_mesh)
    input_fn = input_fn and _taking_module("input_fn", input_fn)
    output_fn = output_fn and _taking_module("output_fn", output_fn)
    placed: dict[int, Any] = {}
    for name, submodule in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, submodule, mesh)
        replicate_what_is_plain(submodule, mesh, placed)
    if input_fn:
        module.register_forward_pre_hook(lambda of, inputs: input_fn(of, inputs, mesh))
    if output_fn:
        module.register_forward_hook(lambda of, inputs, outputs: output_fn(of, outputs, mesh))
    set_replicates_plain(module, replicate_plain)
    module._distribute_module_applied = True
    return module
