"""fully_shard: parameters, gradients and optimizer state divided over a mesh dim, gathered where they are used.

The work is C++ (weft/fully_sharded); here a module's hooks call it, and its methods are PyTorch's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch import nn

from weft import _C
from weft._forward import set_replicates_plain
from weft._module import check_module

_NAME = "_weft_unit"
_IN_UNIT = "_weft_in_unit"  # set on plain parameters that a unit has taken, and on its shards


class _Handle:
    """What unshard(async_op=True) returns."""

    def __init__(self, unit):
        self._unit = unit

    def wait(self) -> None:
        self._unit.unshard(None)


class FullyShardedModule:
    """The methods that fully_shard adds to a module; those of PyTorch's FSDPModule."""

    def unshard(self, async_op: bool = False) -> _Handle | None:
        """Gathers the parameters, which the module has until reshard()."""
        unit = _unit_of(self)
        if async_op:
            unit.start_gather()
            return _Handle(unit)
        unit.unshard(None)
        return None

    def reshard(self) -> None:
        """Frees the gathered parameters; the module has its shards."""
        _unit_of(self).reshard()

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward reduces gradients. Without it they are added up, unreduced, until the next pass that does."""
        for unit in _units(self, recurse):
            unit.set_requires_gradient_sync(requires_gradient_sync)

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """Does nothing: every backward is complete when it returns."""

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        for unit in _units(self, recurse):
            unit.set_reshard_after_forward(reshard_after_forward)

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        for unit in _units(self, recurse):
            unit.set_reshard_after_backward(reshard_after_backward)

    def set_modules_to_forward_prefetch(self, modules: list[nn.Module]) -> None:
        """The modules whose gathers start when this one begins its forward, instead of the one that came next before."""
        _unit_of(self).set_forward_prefetch([_unit_of(module) for module in modules])

    def set_modules_to_backward_prefetch(self, modules: list[nn.Module]) -> None:
        _unit_of(self).set_backward_prefetch([_unit_of(module) for module in modules])

    def __deepcopy__(self, memo):
        raise NotImplementedError(
            f"[fully_shard] a module is copied before it is fully sharded, but {type(self).__name__} is. Make the copy first and "
            "call fully_shard for both."
        )

    def __reduce_ex__(self, protocol):
        raise NotImplementedError(
            f"[fully_shard] the state_dict() of a fully sharded module is saved, but got {type(self).__name__} itself. Save that, or "
            "use weft.save."
        )


def _unit_of(module):
    unit = module.__dict__.get(_NAME)
    if unit is None:
        raise ValueError(
            f"[fully_shard] a fully sharded module is required, but got {type(module).__name__}. Call fully_shard for it first."
        )
    return unit


def _units(module, recurse=True):
    modules = module.modules() if recurse else [module]
    return [unit for each in modules if (unit := each.__dict__.get(_NAME)) is not None]


_classes: dict[type, type] = {}  # class of a module -> that class with the methods


def _with_methods(module):
    of_module = type(module)
    if of_module not in _classes:
        _classes[of_module] = type(f"FullySharded{of_module.__name__}", (FullyShardedModule, of_module), {})
    module.__class__ = _classes[of_module]


def _own_modules(module):
    """The module and those inside of it that belong to no unit yet."""
    found, todo, seen = [], [module], set()
    while todo:
        each = todo.pop()
        if each in seen or (each is not module and _NAME in each.__dict__):
            continue
        seen.add(each)
        found.append(each)
        todo.extend(reversed(list(each.children())))
    return found


def _refresh_of(module):
    """RNNs keep their parameters in a list, too."""
    names = module._flat_weights_names

    def refresh():
        module._flat_weights = [module._parameters.get(name) for name in names]

    return refresh


def _as_parameter(shard, parameter):
    made = nn.Parameter(shard, requires_grad=parameter.requires_grad)
    made.__dict__.update(parameter.__dict__)
    for each in (made, parameter):
        setattr(each, _IN_UNIT, True)
    return made


def _check_module(module):
    if _NAME in module.__dict__:
        raise ValueError(f"[fully_shard] a module is fully sharded once, but this {type(module).__name__} is already.")
    if type(module).forward is nn.modules.module._forward_unimplemented:
        raise ValueError(
            f"[fully_shard] a module with a forward is required, but got {type(module).__name__}, a container. Call fully_shard for "
            "each module in it."
        )


def _check_options(shard_placement_fn, mp_policy, offload_policy, reshard_after_forward, mesh_dim, mesh):
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy  # takes long to import

    if shard_placement_fn is not None:
        raise NotImplementedError(
            "[fully_shard] parameters are sharded by rows, at boundaries that make a unit's shards one buffer, but got a "
            "shard_placement_fn. Leave it out."
        )
    if mp_policy is not None and not isinstance(mp_policy, MixedPrecisionPolicy):
        raise TypeError(f"[fully_shard] a MixedPrecisionPolicy is required for mp_policy, but got {mp_policy!r}.")
    if offload_policy is not None and not isinstance(offload_policy, OffloadPolicy):
        raise TypeError(f"[fully_shard] an OffloadPolicy is required for offload_policy, but got {offload_policy!r}.")
    if isinstance(offload_policy, CPUOffloadPolicy) and mesh.device_type != "cpu":
        raise NotImplementedError(
            f"[fully_shard] shards stay on the device of the mesh, but got {type(offload_policy).__name__}. Leave it out."
        )
    if not isinstance(reshard_after_forward, int | None):
        raise TypeError(
            f"[fully_shard] True, False or a number of ranks is required for reshard_after_forward, but got {reshard_after_forward!r}."
        )
    is_number = isinstance(reshard_after_forward, int) and not isinstance(reshard_after_forward, bool)
    if is_number and reshard_after_forward not in (1, mesh.size(mesh_dim)):
        raise NotImplementedError(
            f"[fully_shard] reshard_after_forward must be True, False or the size of the mesh dim, {mesh.size(mesh_dim)}, but got "
            f"{reshard_after_forward}. Use a mesh with a replicate_dim to shard over fewer ranks."
        )


def _ignored(parameters):
    """The ids of parameters that stay as they are."""
    if isinstance(parameters, torch.Tensor) or not isinstance(parameters or (), Iterable):
        raise TypeError(f"[fully_shard] a set of parameters is required for ignored_params, but got {type(parameters).__name__}.")
    for each in parameters or ():
        if not isinstance(each, nn.Parameter):
            raise TypeError(f"[fully_shard] a set of parameters is required for ignored_params, but got {each!r} among them.")
    return {id(each) for each in parameters or ()}


class _Hooks:
    """What happens before and after a module's forward."""

    def __init__(self, unit, policy, attributes):
        self._unit = unit
        self._cast_to = policy.param_dtype if policy is not None and policy.cast_forward_inputs else None
        self._output_dtype = getattr(policy, "output_dtype", None)
        self._attributes = attributes
        self._errors = []  # those that were being handled when each forward began

    def before(self, module, args, kwargs):
        self._errors.append(sys.exc_info()[1])
        self._unit.enter(self._unit.view_of(args, kwargs))
        return None if self._cast_to is None else _cast((args, kwargs), self._cast_to)

    def after(self, module, args, kwargs, output):
        if self._output_dtype is not None:
            output = _cast(output, self._output_dtype)
        has_failed = sys.exc_info()[1] is not (self._errors.pop() if self._errors else None)
        self._unit.leave(output, (args, kwargs), self._attributes, has_failed)
        return output


def _cast(values, dtype):
    def cast(value):
        is_cast = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != dtype
        return value.to(dtype) if is_cast else value

    return pytree.tree_map(cast, values)


def fully_shard(
    module: nn.Module,
    mesh: Any = None,
    mesh_dim: str | None = None,
    *,
    replicate_dim: str | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[nn.Parameter], Any] | None = None,
    mp_policy: Any = None,
    offload_policy: Any = None,
    ignored_params: Iterable[nn.Parameter] | None = None,
) -> nn.Module:
    """Divides the parameters of a module over a mesh dim, with their gradients and the optimizer's state.

        for block in model.blocks:
            weft.fully_shard(block, mesh, "dp")
        weft.fully_shard(model, mesh, "dp")                     # what is left: embedding, norm, head
        optimizer = torch.optim.AdamW(model.parameters())       # of the shards

    Each call makes a unit of the parameters that belong to no unit inside of it: they are gathered before the module's forward and
    again before its backward, and their gradients are reduced to the shards after it. Call it for inner modules first. The
    parameters become distributed tensors with ragged shards, `S(0|3:0:5)`. Parameters that are distributed already, by
    parallelize_module, keep their placements on the other mesh dims.

    The batch is either distributed over the mesh dim (the global view: the loss is that of the global batch), or each rank gives
    plain tensors of its own, as with PyTorch's fully_shard: gradients are averaged over the ranks.

    `replicate_dim` is a second mesh dim over which the shards are replicated; a mesh of two dims without mesh_dim is (replicate,
    shard), as PyTorch's. With `reshard_after_forward=False`, the default of the outermost unit, gathered parameters stay until
    backward. `mp_policy` is PyTorch's MixedPrecisionPolicy. `ignored_params` stay as they are.
    """
    check_module("fully_shard", module)
    mesh = _C.current_mesh("fully_shard", mesh)
    _check_module(module)
    mesh_dim, replicate_dim = _C.shard_dims(mesh, mesh_dim, replicate_dim)
    _check_options(shard_placement_fn, mp_policy, offload_policy, reshard_after_forward, mesh_dim, mesh)
    ignored = _ignored(ignored_params)
    modules = _own_modules(module)
    inner = _units(module)
    of_inner = {id(leaf) for unit in inner for leaf in unit.leaves}
    numbers: dict[int, int] = {}
    parameters, slots = [], []
    for owner in modules:
        for name, parameter in owner._parameters.items():
            if parameter is None or id(parameter) in ignored or id(parameter) in of_inner:
                continue
            if getattr(parameter, _IN_UNIT, False):
                raise ValueError(
                    f"[fully_shard] a parameter is in one unit, but '{name}' of a {type(owner).__name__} is in another already. Leave "
                    "modules that share it to the call for a module around them."
                )
            if id(parameter) not in numbers:
                numbers[id(parameter)] = len(parameters)
                parameters.append(parameter)
            slots.append((owner._parameters, name, numbers[id(parameter)]))
    leaves = [
        _as_parameter(shard, parameter)
        for shard, parameter in zip(_C.shard_parameters(parameters, mesh, mesh_dim), parameters)
    ]
    for table, name, number in slots:
        table[name] = leaves[number]
    unit = _C.Unit(
        leaves,
        slots,
        [_refresh_of(owner) for owner in modules if isinstance(owner, nn.RNNBase)],
        mesh_dim,
        replicate_dim,
        getattr(mp_policy, "param_dtype", None),
        getattr(mp_policy, "reduce_dtype", None),
    )
    for each in inner:
        unit.add_inner(each)
    _C.Unit.join([unit, *inner])
    if reshard_after_forward is not None:
        unit.set_reshard_after_forward(reshard_after_forward is True or reshard_after_forward > 1)
    module._weft_unit = unit
    hooks = _Hooks(unit, mp_policy, [owner.__dict__ for owner in modules])
    module.register_forward_pre_hook(hooks.before, with_kwargs=True)
    module.register_forward_hook(hooks.after, with_kwargs=True, always_call=True)
    _with_methods(module)
    # Elsewhere, as in a method that is not forward, plain tensors may differ by rank.
    for each in modules:
        set_replicates_plain(each, each is module, alone=True)
    return module
