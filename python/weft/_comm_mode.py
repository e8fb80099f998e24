"""PyTorch's CommDebugMode: counts Weft's collectives too, and knows Weft's tensors and ranks that are threads."""

import functools
import sys
from collections import defaultdict

import torch
import torch.utils._pytree as pytree

from weft import _C, _containers, _groups, _imports


def _operators():
    """The operator that CommDebugMode counts each collective of Weft as. It counts no messages between two ranks."""
    functional, c10d = torch.ops.c10d_functional, torch.ops.c10d
    return {
        "all_gather": functional.all_gather_into_tensor,
        "all_reduce": functional.all_reduce,
        "all_to_all": torch.ops._dtensor.shard_dim_alltoall,
        "broadcast": c10d.broadcast_,
        "reduce_scatter": functional.reduce_scatter_tensor,
        "scatter": c10d.scatter_,
    }


def _count(mode, operators, collective):
    operator = operators.get(collective)
    if operator is None:
        return
    mode.comm_counts[operator] += 1
    tracker = mode.advanced_module_tracker
    pass_name = "backward" if tracker.is_bw else "forward"
    # A module whose forward was not in the mode is followed in backward, but its parents are not known.
    for module in {tracker.name, *tracker.module_parents_dict.get(tracker.name, ["Global"])}:
        counts = mode.comm_module_counts.setdefault(module, {"forward": defaultdict(int), "backward": defaultdict(int)})
        counts[pass_name][operator] += 1


def _count_collectives(mode_class):
    plain_enter, plain_exit = mode_class.__enter__, mode_class.__exit__

    @functools.wraps(plain_enter)
    def __enter__(self):
        result = plain_enter(self)
        counter = _C.CommCounter()
        counter.attach(_groups.current_world(), functools.partial(_count, self, _operators()))
        self.__dict__.setdefault("_weft_counters", []).append(counter)  # one per with statement, which may nest
        return result

    @functools.wraps(plain_exit)
    def __exit__(self, *error):
        self._weft_counters.pop().detach()
        return plain_exit(self, *error)

    mode_class.__enter__, mode_class.__exit__ = __enter__, __exit__


def _record_operands(mode_class):
    """Lists shapes and placements of distributed operands, as for operands that are PyTorch's DTensor."""
    plain_dispatch = mode_class.__torch_dispatch__

    @functools.wraps(plain_dispatch)
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = plain_dispatch(self, func, types, args, kwargs)
        operands = [each for each in args if _C.is_dtensor(each)]
        recorded = self.comm_module_operation_counts.get(self.advanced_module_tracker.name, {}).get("operations_list")
        if operands and recorded and recorded[-1]["name"] is func and not recorded[-1]["input_shape"]:
            recorded[-1]["input_shape"] = [each.shape for each in operands]
            recorded[-1]["input_sharding"] = [_C.placements(each) for each in operands]
            recorded[-1]["device_mesh"] = str(_C.device_mesh(operands[0]))
        return result

    mode_class.__torch_dispatch__ = __torch_dispatch__


def _rank():
    """What tells ranks of one process from each other; None where the process is one rank."""
    return _C.current_world() if _C.in_world_scope() else None


def _follow_own_modules(tracker_class):
    """Hooks on modules are called for the modules of all threads of the process: each tracker follows those of its rank."""
    plain_enter = tracker_class.__enter__

    @functools.wraps(plain_enter)
    def __enter__(self):
        self._weft_rank = _rank()
        return plain_enter(self)

    def of_own_rank(hook):
        @functools.wraps(hook)
        def checked(self, *arguments):
            return hook(self, *arguments) if self._weft_rank is _rank() else None

        return checked

    tracker_class.__enter__ = __enter__
    for name in ("_fw_pre_hook", "_fw_post_hook", "_fw_set_module_hook", "_bw_hook"):
        setattr(tracker_class, name, of_own_rank(getattr(tracker_class, name)))


def _know_parameters(tracker_class):
    plain_hook = tracker_class._fw_pre_hook

    @functools.wraps(plain_hook)
    def _fw_pre_hook(self, module, inputs):
        # PyTorch adds a hook in every call of a module, and all of them would leave the module at the end of the next call.
        former = self.register_forward_hook_handles.get(self._get_mod_name(module))
        if former is not None and not self.is_bw:
            former.remove()
        plain_hook(self, module, inputs)
        if self.activation_checkpointing:
            return
        for name, parameter in module.named_parameters(recurse=False):
            if _C.is_dtensor(parameter):
                placements = _C.placements(parameter)
                self.sharding_dict[f"{self.name}.{name}"] = placements
                self.module_helper_dict[self.name].setdefault("parameters", {})[name] = str(placements)

    tracker_class._fw_pre_hook = _fw_pre_hook


def _take_any_container(module):
    module.tree_flatten = functools.partial(pytree.tree_flatten, is_leaf=_containers.is_value)


def _extend(module):
    for each in (module, sys.modules[module._CommModeModuleTracker.__base__.__module__]):
        _take_any_container(each)
    _count_collectives(module.CommDebugMode)
    _record_operands(module.CommDebugMode)
    _know_parameters(module._CommModeModuleTracker)
    _follow_own_modules(module._CommModeModuleTracker)


def install():
    _imports.when_imported("torch.distributed.tensor.debug._comm_mode", _extend)
