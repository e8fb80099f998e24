"""The methods that fully_shard adds to a module; those of PyTorch's FSDPModule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

UNIT = "_weft_unit"
_PASSES = "_weft_passes"


class _Handle:
    """What unshard(async_op=True) returns."""

    def __init__(self, unit):
        self._unit = unit

    def wait(self) -> None:
        self._unit.unshard(None)


class FullyShardedModule:
    """The methods that fully_shard adds to a module; those of PyTorch's FSDPModule."""

    def __call__(self, *args, **kwargs):
        passes = self.__dict__[_PASSES]
        depth = passes.depth()
        try:
            return super().__call__(*args, **kwargs)
        except Exception:
            raise
        except BaseException:
            passes.unwind(depth)  # torch calls no hooks after a KeyboardInterrupt
            raise

    def unshard(self, async_op: bool = False) -> _Handle | None:
        """Gathers the parameters, which the module has until reshard()."""
        unit = unit_of(self)
        if async_op:
            unit.start_gather()
            return _Handle(unit)
        unit.unshard(None)
        return None

    def reshard(self) -> None:
        """Frees the gathered parameters; the module has its shards."""
        unit_of(self).reshard()

    def reset_iter_state(self) -> None:
        """After an exception in forward or backward: frees gathered parameters, and drops gradients that were not reduced."""
        for unit in units_in([self]):
            unit.reset()

    def set_requires_gradient_sync(self, requires_gradient_sync: bool, *, recurse: bool = True) -> None:
        """Whether backward reduces gradients. Without it they are added up, unreduced, until the next pass that does."""
        for unit in units_in([self], recurse):
            unit.set_requires_gradient_sync(requires_gradient_sync)

    def set_requires_all_reduce(self, requires_all_reduce: bool, *, recurse: bool = True) -> None:
        """Whether backward reduces gradients over the replicate_dim, too. Without it the sums of the shards are added up until the
        next pass that does."""
        for unit in units_in([self], recurse):
            unit.set_requires_all_reduce(requires_all_reduce)

    def set_gradient_divide_factor(self, factor: float) -> None:
        """What the sum of the ranks' gradients is divided by, instead of their number, where each has plain tensors of its own."""
        unit_of(self).set_gradient_divide_factor(factor)

    def set_all_reduce_hook(self, hook: Callable[[torch.Tensor], Any], *, stream: Any = None) -> None:
        """Calls `hook(reduced)` with this rank's range of the unit's reduced gradients, one flat tensor, which it may write to."""
        if stream is not None:
            raise NotImplementedError(
                "[fully_shard] a hook that runs on the stream of the backward pass is required, but got another stream. Leave it out."
            )
        unit_of(self).set_reduced_hook(hook)

    def set_reshard_after_forward(self, reshard_after_forward: bool, recurse: bool = True) -> None:
        for unit in units_in([self], recurse):
            unit.set_reshard_after_forward(reshard_after_forward)

    def set_reshard_after_backward(self, reshard_after_backward: bool, *, recurse: bool = True) -> None:
        for unit in units_in([self], recurse):
            unit.set_reshard_after_backward(reshard_after_backward)

    def set_modules_to_forward_prefetch(self, modules: list[nn.Module]) -> None:
        """The modules whose gathers start when this one begins its forward, instead of the one that came next before."""
        unit_of(self).set_forward_prefetch([unit_of(module) for module in modules])

    def set_modules_to_backward_prefetch(self, modules: list[nn.Module]) -> None:
        unit_of(self).set_backward_prefetch([unit_of(module) for module in modules])

    # Advice to PyTorch about how it communicates, which changes no result. It has no effect here.

    def set_is_last_backward(self, is_last_backward: bool) -> None:
        """No effect: every backward is complete when it returns."""

    def set_unshard_in_backward(self, unshard_in_backward: bool) -> None:
        """No effect: parameters are gathered for backward."""

    def set_post_optim_event(self, event: Any) -> None:
        """No effect: gathers follow what is on the current stream."""

    def set_force_sum_reduction_for_comms(self, enable: bool) -> None:
        """No effect."""

    def set_reduce_scatter_unused_params(self, reduce_scatter_unused_params: bool, *, recurse: bool = True) -> None:
        """No effect: ranks may always use different parameters."""

    def set_reduce_scatter_max_input_buffers(self, max_input_buffers: int, *, recurse: bool = True) -> None:
        """No effect: one buffer of gradients is on its way at a time."""

    def set_separate_reduce_scatter_group(self, enable: bool = True, *, recurse: bool = True) -> None:
        """No effect."""

    def set_allocate_memory_from_process_group_for_comm(self, enable: bool) -> None:
        """No effect: collectives read and write the memory that the parameters view."""

    def set_symm_mem_for_comm(self, backend: str = "NCCL") -> None:
        """No effect: collectives read and write the memory that the parameters view."""

    def set_custom_all_gather(self, comm: Any) -> None:
        _refuse_custom("set_custom_all_gather")

    def set_custom_reduce_scatter(self, comm: Any) -> None:
        _refuse_custom("set_custom_reduce_scatter")

    def set_reduce_scatter_divide_factor(self, factor: float) -> None:
        """PyTorch's older name of set_gradient_divide_factor."""
        self.set_gradient_divide_factor(factor)

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


def _refuse_custom(name):
    raise NotImplementedError(
        f"[fully_shard] the collectives of the mesh are required, because shards of a unit differ in length, but got {name}. Choose "
        "the backend with the mesh instead."
    )


def unit_of(module):
    unit = module.__dict__.get(UNIT)
    if unit is None:
        raise ValueError(
            f"[fully_shard] a fully sharded module is required, but got {type(module).__name__}. Call fully_shard for it first."
        )
    return unit


def units_in(modules, recurse=True):
    """The units of modules and of those inside of them; several modules may have one."""
    found = {}
    for module in modules:
        for each in module.modules() if recurse else [module]:
            if (unit := each.__dict__.get(UNIT)) is not None:
                found[id(unit)] = unit
    return list(found.values())


_classes: dict[type, type] = {}  # class of a module -> that class with the methods


def add_methods(module, passes):
    module.__dict__[_PASSES] = passes
    of_module = type(module)
    if of_module not in _classes:
        _classes[of_module] = type(f"FullySharded{of_module.__name__}", (FullyShardedModule, of_module), {})
    module.__class__ = _classes[of_module]
