"""The tensors and values of a state by name, as a checkpoint has them."""

from collections.abc import Mapping

import torch
from torch import nn

from weft import _C
from weft._checkpoint.value_json import encoded, joined


def has_state(value):
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def is_optimizer_state(value):
    """Whether a dict is what an optimizer's state_dict() returns."""
    return isinstance(value, Mapping) and set(value) == {"state", "param_groups"}


def holds_tensors(value):
    if isinstance(value, Mapping):
        return any(holds_tensors(each) for each in value.values())
    if isinstance(value, (list, tuple)):
        return any(holds_tensors(each) for each in value)
    return isinstance(value, torch.Tensor) or has_state(value)


def unwrapped(module):
    """The module that was compiled, or wrapped for data parallelism: names are the same with and without."""
    while True:
        if isinstance(module, (nn.parallel.DistributedDataParallel, nn.DataParallel)):
            module = module.module
        elif isinstance(getattr(module, "_orig_mod", None), nn.Module):
            module = module._orig_mod
        else:
            return module


def _storage(tensor):
    return (_C.to_local(tensor) if _C.is_dtensor(tensor) else tensor).untyped_storage()._cdata


def fills_module(module, state_dict):
    """Whether filling the entries fills the module. Hooks may have put copies there, in other memory or on another device, and
    values that are no tensors: then the module must load them."""
    with torch.no_grad():
        own = {_storage(tensor) for tensor in (*module.parameters(), *module.buffers())}
        return all(isinstance(value, torch.Tensor) and _storage(value) in own for value in state_dict.values())


def check_has_memory(where, name, tensor):
    """A subclass that handles operators itself, such as torch's DTensor or a FakeTensor, need not have the memory of its values."""
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TypeError(
            f"[{where}] '{name}' must be a plain tensor or one of Weft's, but got {type(tensor).__name__}. Convert it first, torch's "
            "DTensor by weft.from_torch."
        )


def check_state(where, state):
    if not isinstance(state, Mapping) and not has_state(state):
        raise TypeError(f"[{where}] a dict, a module or an optimizer is required, but got {type(state).__name__}.")


class NamedState:
    """Tensors and values by name: those of {"model": {"w": ...}} are called model.w.

    An object with a state_dict, other than a module, has its tensors and one value of its own name: its state_dict, in which
    {"tensor": "optimizer.state.0.exp_avg"} stands for a tensor. So an object that has no state yet can be given all of it. A tied
    parameter is stored under its first name; {"tensor": "model.embed.weight"} is the value of each other name.
    """

    def __init__(self, where):
        self.where = where
        self.tensors = {}
        self.values = {}  # in the form of JSON

    def add(self, name, value):
        if isinstance(value, nn.Module):
            self._add_module(name, unwrapped(value))
        elif has_state(value):
            self.add_object(name, value.state_dict())
        elif is_optimizer_state(value):
            self.add_object(name, value)
        elif isinstance(value, Mapping) and (holds_tensors(value) or not name):
            for key, each in value.items():
                self.add(joined(name, key), each)
        elif isinstance(value, (list, tuple)) and holds_tensors(value):
            for index, each in enumerate(value):
                self.add(joined(name, index), each)
        else:
            self.add_object(name, value)

    def _add_module(self, name, module):
        first_names = {}  # by id. Tied parameters are one object on every rank, where their local tensors may be empty.
        for key, value in module.state_dict(keep_vars=True).items():
            own = joined(name, key)
            if isinstance(value, torch.Tensor) and first_names.setdefault(id(value), own) != own:
                self.put(self.values, own, {"tensor": first_names[id(value)]})
            else:
                self.add_object(own, value)

    def add_object(self, name, value):
        """A tensor, or a value that may hold tensors."""
        if isinstance(value, torch.Tensor):
            self.put(self.tensors, name, value)
        else:
            self.put(self.values, name, encoded(value, name, self._tensor_json))

    def _tensor_json(self, value, name):
        if not isinstance(value, torch.Tensor):
            return None
        self.put(self.tensors, name, value)
        return {"tensor": name}

    def put(self, named, name, value):
        if isinstance(value, torch.Tensor):
            check_has_memory(self.where, name, value)
        if name in self.tensors or name in self.values:
            raise ValueError(f"[{self.where}] every name must be there once, but '{name}' is there twice. Rename one of them.")
        named[name] = value
