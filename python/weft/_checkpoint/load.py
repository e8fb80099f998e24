"""load: fills a state from a checkpoint of any mesh and any number of ranks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree

from weft import _C
from weft._C import Replicate
from weft._checkpoint.named_state import NamedState, check_state, fills_module, has_state, holds_tensors, is_optimizer_state, unwrapped
from weft._checkpoint.value_json import decoded, joined
from weft._modules.materialize import has_meta, prepare_to_load

_Path = str | os.PathLike


def _listed(names):
    names = sorted(names)
    return ", ".join(map(repr, names[:8])) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _parameters_by_tensor(optimizer, saved):
    """The parameters of an optimizer, by the names of the tensors that a saved state, with names in place of tensors, has of each.
    Its groups say what it calls the parameters: numbers, or names in checkpoints of torch.distributed.checkpoint."""
    keys = [key for group in saved["param_groups"] for key in group["params"]]
    own = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return {
        leaf.name: parameter
        for key, parameter in zip(keys, own)
        for leaf in _pytree.tree_leaves(saved["state"].get(key))
        if isinstance(leaf, _Name)
    }


def _like_parameter(parameter, dtype, shape):
    """State of a parameter: of its shape it has its layout, other is replicated on its mesh. A number is plain, as torch makes it."""
    if parameter is None or not shape:
        return torch.empty(shape, dtype=dtype)
    with torch.no_grad():
        if tuple(shape) == tuple(parameter.shape):
            return torch.empty_like(parameter, dtype=dtype, requires_grad=False)
        plain = torch.empty(shape, dtype=dtype, device=parameter.device)
        if not _C.is_dtensor(parameter):
            return plain
        mesh = _C.device_mesh(parameter)
        return _C.from_local(plain, mesh, [Replicate()] * mesh.ndim)


class _Name:
    """Stands for a tensor."""

    def __init__(self, name):
        self.name = name


def _updated(mapping, values):
    if hasattr(mapping, "update"):
        mapping.update(values)
        return mapping
    return values


def _with_elements(value, elements):
    """A list in place; a tuple of another kind stays one of its kind."""
    if isinstance(value, list):
        value[:] = elements
        return value
    if all(old is new for old, new in zip(value, elements)):
        return value
    return value._make(elements) if hasattr(value, "_make") else type(value)(elements)


class _Loader:
    """Lists what is to be read for a state, and gives it to its objects once it is read."""

    def __init__(self, stored):
        self.stored = stored
        self.named = NamedState("load")
        self.finish = []  # calls of load_state_dict, once everything is read
        self.owners = []  # (name, class) of those that take all that is stored under their names

    def add(self, name, value):
        """Notes the tensors and values in it; returns what gives what takes its place, once all are read."""
        if isinstance(value, torch.Tensor):
            self.named.put(self.named.tensors, name, value)
            return lambda: value
        if isinstance(value, nn.Module):
            return self._module(name, value)
        if has_state(value):
            filled = self._object(name, value.state_dict(), value)
            self.finish.append(lambda: value.load_state_dict(filled()))
            return lambda: value
        if isinstance(value, Mapping) and (holds_tensors(value) or not name or is_optimizer_state(value)):
            filled = self._object(name, value) if name in self.stored.values else self._mapping(name, value)
            return lambda: _updated(value, filled())
        if isinstance(value, (list, tuple)) and holds_tensors(value):
            parts = [self.add(joined(name, index), each) for index, each in enumerate(value)]
            return lambda: _with_elements(value, [part() for part in parts])
        return self._value(name, self._new_tensor)

    def check_names(self, is_strict):
        lacking = [name for name in self.named.tensors if name not in self.stored.tensors]
        lacking += [name for name in self.named.values if name not in self.stored.values]
        if lacking:
            self.fail_for(lacking)
        for owner, kind in self.owners if is_strict else ():
            prefix = joined(owner, "") if owner else ""
            unread = [
                name
                for name in (*self.stored.tensors, *self.stored.values)
                if name.startswith(prefix) and name not in self.named.tensors and name not in self.named.values
            ]
            if unread:
                raise ValueError(
                    f"[load] {self.stored.folder}: what is stored under the name of an object must be in it, but {kind} '{owner}' lacks "
                    f"{_listed(unread)}. Give strict=False to leave it out."
                )

    def fail_for(self, lacking):
        raise ValueError(
            f"[load] {self.stored.folder}: what is to be loaded must be in it, but it lacks {_listed(lacking)}. Is it the checkpoint of "
            "another model?"
        )

    def _mapping(self, name, value):
        parts = {key: self.add(joined(name, key), each) for key, each in value.items()}
        return lambda: {key: part() for key, part in parts.items()}

    def _value(self, name, tensor_of):
        if name in self.stored.tensors:
            made = tensor_of(name)
            return lambda: made
        self.named.put(self.named.values, name, None)
        if name not in self.stored.values:
            return None  # check_names raises
        filled = decoded(json.loads(self.stored.values[name]), tensor_of)
        return lambda: filled

    def _new_tensor(self, name, parameter=None):
        """For one that the checkpoint has of an object, and the object has not yet."""
        if name not in self.stored.tensors:
            self.fail_for([name])
        made = _like_parameter(parameter, *self.stored.tensors[name])
        self.named.put(self.named.tensors, name, made)
        return made

    def _module(self, name, wrapper):
        module = unwrapped(wrapper)
        state_dict = module.state_dict()
        has = self.stored.tensors.keys() | self.stored.values.keys()
        if lacking := [joined(name, key) for key in state_dict if joined(name, key) not in has]:
            self.fail_for(lacking)
        if has_meta(module):
            prepare_to_load("load", module, set(state_dict))
            state_dict = module.state_dict()
        self.owners.append((name, type(module).__name__))
        filled = self._mapping(name, state_dict)
        if not fills_module(module, state_dict):
            self.finish.append(lambda: module.load_state_dict(filled()))
        return lambda: wrapper

    def _object(self, name, state_dict, owner=None):
        """All that was saved of an object, in its own tensors where it has them."""
        if name not in self.stored.values:
            self.owners.append((name, type(owner).__name__))
            return self._mapping(name, state_dict)
        saved = decoded(json.loads(self.stored.values[name]), _Name)
        own = NamedState("load")
        own.add_object(name, state_dict)
        parameters = {}
        if isinstance(owner, torch.optim.Optimizer):
            parameters = _parameters_by_tensor(owner, saved)
        elif lacking := [joined(name, key) for key in state_dict if not isinstance(saved, Mapping) or key not in saved]:
            self.fail_for(lacking)

        def tensor_of(tensor_name):
            if tensor_name in own.tensors:
                self.named.put(self.named.tensors, tensor_name, own.tensors[tensor_name])
                return own.tensors[tensor_name]
            if owner is None:
                raise ValueError(
                    f"[load] {self.stored.folder}: '{tensor_name}' is there, but the dict '{name}' that is to be loaded has no such tensor. "
                    "Load into the object itself that was saved, in place of its state_dict()."
                )
            return self._new_tensor(tensor_name, parameters.get(tensor_name))

        return self._value(name, tensor_of)


def load(state: Any, folder: _Path, *, strict: bool = True, verify: bool = True, broadcast: bool = False) -> Any:
    """Fills a state from a checkpoint, whatever mesh and layouts it was saved on, and returns it.

        state = weft.load({"model": model, "optimizer": optimizer, "step": 0}, "run/step_100")

    Tensors, modules and optimizers are filled in place, each rank reading what its shards need; values are replaced, in `state`
    too. A module on meta gets its memory, an optimizer that has made no step its state. Raises for names that the checkpoint lacks.
    Entries of the checkpoint that `state` has not are not read; a module or another object must have all that is stored under its
    name, unless `strict` is False. `verify` compares checksums. With `broadcast` one of the ranks that hold the same values reads
    them and sends them to the others, for slow file systems; all ranks must then load the same.
    """
    check_state("load", state)
    stored = _C.stored_checkpoint(os.fspath(folder))
    loader = _Loader(stored)
    filled = loader.add("", state)
    loader.check_names(strict)
    stored.load(loader.named.tensors, verify, broadcast)
    for finish in loader.finish:
        finish()
    return filled()
