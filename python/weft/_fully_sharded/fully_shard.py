"""fully_shard: parameters, gradients and optimizer state divided over a mesh dim, gathered where they are used.

The work is C++ (weft/fully_sharded); here a module's hooks call it, and its methods are PyTorch's.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import nn

from weft import _C, _containers
from weft._fully_sharded import options as _options
from weft._fully_sharded.added_parameters import AddedParameters
from weft._fully_sharded.module import UNIT, add_methods, units_in
from weft._modules.distribute import check_module
from weft._modules.forward import set_replicates_plain

_IN_UNIT = "_weft_in_unit"  # set on plain parameters that a unit has taken, and on its shards


def _own_modules(given):
    """The modules and those inside of them that belong to no unit yet."""
    found, seen = [], set()
    todo = list(reversed(given))
    while todo:
        each = todo.pop()
        if each in seen or UNIT in each.__dict__:
            continue
        seen.add(each)
        found.append(each)
        todo.extend(reversed(list(each.children())))
    return found


def _refresh_of(module):
    """RNNs keep their parameters in a list, too."""
    names = module._flat_weights_names
    reference = weakref.ref(module)  # the module holds the unit, which holds this function

    def refresh():
        if (owner := reference()) is not None:
            owner._flat_weights = [owner._parameters.get(name) for name in names]

    return refresh


def _as_parameter(shard, parameter):
    made = nn.Parameter(shard, requires_grad=parameter.requires_grad)
    made.__dict__.update(parameter.__dict__)
    return made


def _check_module(module):
    check_module("fully_shard", module)
    if UNIT in module.__dict__:
        raise ValueError(f"[fully_shard] a module is fully sharded once, but this {type(module).__name__} is already.")
    # The module that torch.compile gives has a forward of its own, not of its class.
    if type(module).forward is nn.modules.module._forward_unimplemented and "forward" not in module.__dict__:
        raise ValueError(
            f"[fully_shard] a module with a forward is required, but got {type(module).__name__}, a container. Call fully_shard for "
            "each module in it."
        )


class _Running(threading.local):
    """The forwards of units' modules that run on this thread, the innermost last."""

    def __init__(self):
        self.forwards: list[_Forward] = []


_running = _Running()


class _Forward:
    def __init__(self, passes):
        self.passes = passes
        self.inner = []  # passes that modules of one unit share inside of this forward


class _Passes:
    """Enters a unit when one of its modules begins its forward, and leaves it after.

    Several modules of one unit share one pass where the forward of another fully sharded module surrounds them: the first enters, and
    the last leaves, or the end of the surrounding forward. Elsewhere each call is a pass of its own.
    """

    def __init__(self, unit, modules, attributes, added):
        self.unit = unit
        self._added = added
        self._modules = set(modules)
        self._attributes = attributes
        self._shared = None  # the pass that several modules share

    def begin(self, args, kwargs):
        surrounding = _running.forwards[-1] if _running.forwards else None
        _running.forwards.append(_Forward(self))
        is_global = self.unit.view_of(args, kwargs)
        if is_global is False and torch.is_grad_enabled():
            self._added.refuse()
        if len(self._modules) == 1 or surrounding is None:
            self.unit.enter(is_global)
            return
        if self._shared is not None and is_global not in (None, self._shared.is_global):
            self.end_shared()
        if self._shared is None:
            self.unit.enter(is_global)
            self._shared = _SharedPass(is_global)
            surrounding.inner.append(self)

    def end(self, module, args, kwargs, output, has_failed):
        if all(forward.passes is not self for forward in _running.forwards):
            return  # begin() was not called, because another hook has failed
        while True:
            # An exception that modules do not see, as KeyboardInterrupt, leaves forwards behind.
            forward = _running.forwards.pop()
            for each in forward.inner:
                each.end_shared(has_failed)
            if forward.passes is self:
                break
        if self._shared is None:
            self.unit.leave(output, (args, kwargs), self._attributes, has_failed)
            return
        self._shared.add(module, (args, kwargs), output)
        if has_failed or self._shared.modules == self._modules:
            self.end_shared(has_failed)

    def depth(self):
        return len(_running.forwards), self.unit.depth

    def unwind(self, depth):
        """Ends the forwards that began since then and whose hooks torch did not call, as after a KeyboardInterrupt."""
        forwards, entered = depth
        while len(_running.forwards) > forwards:
            for each in _running.forwards.pop().inner:
                each.end_shared(has_failed=True)
        self.unit.unwind(entered)

    def end_shared(self, has_failed=False):
        shared, self._shared = self._shared, None
        if shared is not None:
            self.unit.leave(shared.outputs, shared.arguments, self._attributes, has_failed)


class _SharedPass:
    def __init__(self, is_global):
        self.is_global = is_global
        self.modules = set()  # that have run
        self.arguments = []
        self.outputs = []

    def add(self, module, arguments, output):
        self.modules.add(module)
        self.arguments.append(arguments)
        self.outputs.append(output)


class _Hooks:
    """What happens before and after a module's forward."""

    def __init__(self, passes, policy):
        self._passes = passes
        self._cast_to = policy.param_dtype if policy is not None and policy.cast_forward_inputs else None
        self._output_dtype = getattr(policy, "output_dtype", None)
        self._errors = []  # those that were being handled when each forward began

    def before(self, module, args, kwargs):
        del self._errors[self._passes.unit.depth :]  # of forwards that were interrupted
        self._errors.append(sys.exc_info()[1])
        self._passes.begin(args, kwargs)
        return None if self._cast_to is None else _cast((args, kwargs), self._cast_to)

    def after(self, module, args, kwargs, output):
        if self._output_dtype is not None:
            output = _cast(output, self._output_dtype)
        has_failed = sys.exc_info()[1] is not (self._errors.pop() if self._errors else None)
        self._passes.end(module, args, kwargs, output, has_failed)
        return output


def _let_go_after(modules, unit):
    """Frees what the unit has gathered when the last of its modules is gone."""
    left = len(modules)

    def gone():
        nonlocal left
        left -= 1
        if left == 0:
            unit.let_go()

    for each in modules:
        weakref.finalize(each, gone).atexit = False


def _cast(values, dtype):
    def cast(value):
        is_cast = isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != dtype
        return value.to(dtype) if is_cast else value

    return _containers.mapped(cast, values)


def _given_modules(module):
    """Of a module or a list of modules, those that are in no other of them."""
    if isinstance(module, nn.Module):
        return [module]
    modules = list(module) if isinstance(module, list | tuple) else []
    if not modules:
        raise TypeError(f"[fully_shard] an nn.Module or a list of them is required, but got {module!r}.")
    for each in modules:
        check_module("fully_shard", each)
    inside = {child for each in modules for child in each.modules() if child is not each}
    return [each for each in dict.fromkeys(modules) if each not in inside]


def _keep_shards_in_state_dict(unit, owner, numbers):
    """state_dict() has the shards also while parameters are gathered, as after unshard(): these are freed by reshard()."""

    def show_shards(module, state, prefix, local_metadata):
        if not unit.shows_gathered:
            return
        leaves = unit.leaves
        for name, number in numbers.items():
            given = state.get(prefix + name)
            if given is not None:
                keeps_vars = given is module._parameters.get(name)
                state[prefix + name] = leaves[number] if keeps_vars else leaves[number].detach()

    owner.register_state_dict_post_hook(show_shards)


class _Parameters:
    """The parameters of a unit, and where its modules keep them."""

    def __init__(self, modules, left_out, shard_placement_fn):
        self.found: list[nn.Parameter] = []
        self.sharded_dims: list[int] = []
        self.slots: list[tuple[dict, str, int]] = []  # the table, the name in it, and the number of the parameter
        numbers: dict[int, int] = {}
        for owner in modules:
            for name, parameter in owner._parameters.items():
                if parameter is None or id(parameter) in left_out:
                    continue
                if nn.parameter.is_lazy(parameter):
                    raise ValueError(
                        f"[fully_shard] parameters that have a shape are required, but '{name}' of a {type(owner).__name__} gets one in "
                        "its first forward. Run that before fully_shard."
                    )
                if getattr(parameter, _IN_UNIT, False):
                    raise ValueError(
                        f"[fully_shard] a parameter is in one unit, but '{name}' of a {type(owner).__name__} is in another already. "
                        "Leave modules that share it to the call for a module around them."
                    )
                if id(parameter) not in numbers:
                    self.sharded_dims.append(_options.sharded_dim(shard_placement_fn, name, parameter))
                    numbers[id(parameter)] = len(self.found)
                    self.found.append(parameter)
                self.slots.append((owner._parameters, name, numbers[id(parameter)]))

    def replace(self, leaves):
        """Puts parameters of the shards in place."""
        for each in (*leaves, *self.found):
            setattr(each, _IN_UNIT, True)
        for table, name, number in self.slots:
            table[name] = leaves[number]

    def numbers_of(self, owner):
        """The names of a module's parameters, and their numbers in the unit."""
        return {name: number for table, name, number in self.slots if table is owner._parameters}


def fully_shard(
    module: nn.Module | list[nn.Module],
    mesh: Any = None,
    mesh_dim: str | None = None,
    *,
    replicate_dim: str | None = None,
    reshard_after_forward: bool | int | None = None,
    shard_placement_fn: Callable[[nn.Parameter], Any] | None = None,
    mp_policy: Any = None,
    mixed_precision: Any = None,
    offload_policy: Any = None,
    offload: Any = None,
    ignored_params: Iterable[nn.Parameter] | None = None,
    dp_mesh_dims: Any = None,
) -> Any:
    """Divides the parameters of a module over a mesh dim, with their gradients and the optimizer's state.

        for block in model.blocks:
            weft.fully_shard(block, mesh, "dp")
        weft.fully_shard(model, mesh, "dp")                     # what is left: embedding, norm, head
        optimizer = torch.optim.AdamW(model.parameters())       # of the shards

    Each call makes a unit of the parameters that belong to no unit inside of it: they are gathered before the module's forward and
    again before its backward, and their gradients are reduced to the shards after it. Call it for inner modules first. The
    parameters become distributed tensors with ragged shards, `S(0|3:0:5)`. Parameters that are distributed already, by
    parallelize_module, keep their placements on the other mesh dims. A list of modules is one unit.

    The batch is either distributed over the mesh dim (the global view: the loss is that of the global batch), or each rank gives
    plain tensors of its own, as with PyTorch's fully_shard: gradients are averaged over the ranks.

    Without a mesh it is that of `with mesh:`, or one over all ranks. `replicate_dim` is a second mesh dim over which the shards are
    replicated; a mesh of two dims without mesh_dim is (replicate, shard), as PyTorch's; `dp_mesh_dims` is PyTorch's way to name both.
    With `reshard_after_forward=False`, the default of the outermost unit, gathered parameters stay until backward; with a number each
    rank keeps a part of them, and the gather for backward is among so many neighbours. `mp_policy`, or
    `mixed_precision`, is PyTorch's MixedPrecisionPolicy, or a dtype for gathered parameters. `offload_policy`, or
    `offload`, is PyTorch's, too: with CPUOffloadPolicy() shards, gradients and the optimizer's state stay on the CPU, on a mesh of
    it. `ignored_params` stay as they are.
    """
    given = _given_modules(module)
    for each in given:
        _check_module(each)
    policy = _options.precision_policy(_options.one_of("mp_policy", mp_policy, "mixed_precision", mixed_precision))
    offload = _options.one_of("offload_policy", offload_policy, "offload", offload)
    left_out = _options.ignored(ignored_params)
    mesh = _options.mesh_or_world(mesh, mesh_dim)
    mesh_dim, replicate_dim = _options.dims_of(mesh, mesh_dim, replicate_dim, dp_mesh_dims)
    is_offloaded = _options.is_offloaded(offload, mesh)
    _options.check_reshard_after_forward(reshard_after_forward, mesh, mesh_dim)
    modules = _own_modules(given)
    inner = units_in(given)
    left_out |= {id(leaf) for unit in inner for leaf in unit.leaves}
    parameters = _Parameters(modules, left_out, shard_placement_fn)
    shards = _C.shard_parameters(parameters.found, mesh, mesh_dim, is_offloaded, parameters.sharded_dims)
    leaves = [_as_parameter(shard, parameter) for shard, parameter in zip(shards, parameters.found, strict=True)]
    unit = _C.Unit(
        leaves,
        parameters.slots,
        [_refresh_of(owner) for owner in modules if isinstance(owner, nn.RNNBase)],
        mesh_dim,
        replicate_dim,
        getattr(policy, "param_dtype", None),
        getattr(policy, "reduce_dtype", None),
        mesh.device_type if is_offloaded else None,
        getattr(offload, "pin_memory", True),
    )
    _options.set_reshard_after_forward(unit, reshard_after_forward, mesh.size(mesh_dim))
    # What may raise is above: the module is changed from here on.
    parameters.replace(leaves)
    for each in inner:
        unit.add_inner(each)
    _C.Unit.join([unit, *inner])
    added = AddedParameters(lambda: given + _own_modules([child for each in given for child in each.children()]))
    passes = _Passes(unit, given, [owner.__dict__ for owner in modules], added)
    for each in given:
        each.__dict__[UNIT] = unit  # a module of torch.compile would give attributes that are set to the one in it
        hooks = _Hooks(passes, policy)
        each.register_forward_pre_hook(hooks.before, with_kwargs=True)
        each.register_forward_hook(hooks.after, with_kwargs=True, always_call=True)
        add_methods(each, passes)
    for owner in modules:
        _keep_shards_in_state_dict(unit, owner, parameters.numbers_of(owner))
    _let_go_after(given, unit)
    # Elsewhere, as in a method that is not forward, plain tensors may differ by rank.
    for each in modules:
        set_replicates_plain(each, each in given, alone=True)
    return module
