"""save, load, AsyncSaver: checkpoints for any mesh and any number of ranks."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from weft import _C, _groups
from weft._materialize import has_meta, give_memory_to

_FILE_BYTES = 5 << 30
_TAGS = ({"float"}, {"int"}, {"tuple"}, {"dict"})
_Path = str | os.PathLike


def _has_state(value):
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _holds_tensors(value):
    if isinstance(value, Mapping):
        return any(_holds_tensors(each) for each in value.values())
    if isinstance(value, (list, tuple)):
        return any(_holds_tensors(each) for each in value)
    return isinstance(value, torch.Tensor) or _has_state(value)


def _encoded(value, name):
    """The form that JSON can have; value_json.h describes it."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else {"int": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, list):
        return [_encoded(each, name) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [_encoded(each, name) for each in value]}
    if isinstance(value, Mapping):
        pairs = [(_encoded(key, name), _encoded(each, name)) for key, each in value.items()]
        is_plain = all(isinstance(key, str) for key in value) and set(value) not in _TAGS
        return dict(pairs) if is_plain else {"dict": [list(pair) for pair in pairs]}
    raise TypeError(
        f"[save] '{name}' must be a tensor, a number, a text, a boolean, None, an object with a state_dict, or a list, tuple or "
        f"dict of such values, but got {type(value).__name__}. Save what it is made of."
    )


def _decoded(value):
    if isinstance(value, list):
        return [_decoded(each) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) in _TAGS:
        ((tag, of),) = value.items()
        if tag == "tuple":
            return tuple(_decoded(each) for each in of)
        if tag == "dict":
            return {_hashable(_decoded(key)): _decoded(each) for key, each in of}
        return float(of) if tag == "float" else int(of)
    return {key: _decoded(each) for key, each in value.items()}


def _hashable(key):
    return tuple(key) if isinstance(key, list) else key


def _joined(prefix, key):
    return f"{prefix}.{key}" if prefix else str(key)


class _Flat:
    """The tensors and values of a state by name: those of {"model": {"w": ...}} are called model.w."""

    def __init__(self, where):
        self.where = where
        self.tensors = {}
        self.values = {}

    def add(self, name, value):
        if _has_state(value):
            value = value.state_dict()
        if isinstance(value, torch.Tensor):
            self._put(self.tensors, name, value)
        elif isinstance(value, Mapping) and (_holds_tensors(value) or not name):
            for key, each in value.items():
                self.add(_joined(name, key), each)
        elif isinstance(value, (list, tuple)) and _holds_tensors(value):
            for index, each in enumerate(value):
                self.add(_joined(name, index), each)
        else:
            self._put(self.values, name, value)

    def _put(self, named, name, value):
        if name in self.tensors or name in self.values:
            raise ValueError(f"[{self.where}] every name must be there once, but '{name}' is there twice. Rename one of them.")
        named[name] = value


def _checked(where, state):
    if not isinstance(state, Mapping) and not _has_state(state):
        raise TypeError(f"[{where}] a dict, a module or an optimizer is required, but got {type(state).__name__}.")
    return state


def _flat_to_save(state):
    flat = _Flat("save")
    flat.add("", _checked("save", state))
    return flat.tensors, {name: json.dumps(_encoded(value, name)) for name, value in flat.values.items()}


def save(state: Any, folder: _Path, *, keep_last: int = 0, max_file_bytes: int = _FILE_BYTES) -> None:
    """Writes a checkpoint, which any mesh and any number of ranks can load.

        weft.save({"model": model, "optimizer": optimizer, "step": 100}, "run/step_100", keep_last=3)

    `state` is a dict of tensors (distributed or plain), modules, optimizers and other objects with a state_dict, numbers, texts,
    and lists, tuples and dicts of these; or one module. Every rank calls it. Each writes its own safetensors files, of at most
    `max_file_bytes`; what several ranks hold is written once. A plain tensor must be equal on all ranks that save it. The folder is a
    checkpoint when everything is on the disk; until then an older one in it stays as it was. With `keep_last` the oldest complete
    checkpoints next to it are removed, whose names differ in the number at the end alone. docs/checkpoints.md describes the files.
    """
    tensors, values = _flat_to_save(state)
    _C.save_checkpoint(_groups.current_world(), tensors, values, os.fspath(folder), max_file_bytes, keep_last)


class AsyncSaver:
    """Saves while training goes on: save() returns when the tensors are copied, a thread writes the copies.

        saver = weft.AsyncSaver()
        for step in range(1000):
            ...
            saver.save({"model": model, "step": step}, f"run/step_{step}", keep_last=3)
        saver.wait()

    A save waits for the one before, and raises its error. All ranks make it; savers in use at the same time need different names.
    """

    def __init__(self, name: str = "async_save") -> None:
        self._saver = _C.AsyncSaver(_groups.current_world(), name)

    def save(self, state: Any, folder: _Path, *, keep_last: int = 0, max_file_bytes: int = _FILE_BYTES) -> None:
        tensors, values = _flat_to_save(state)
        self._saver.save(tensors, values, os.fspath(folder), max_file_bytes, keep_last)

    def wait(self) -> None:
        """Returns when the last save is complete, or raises its error."""
        self._saver.wait()

    @property
    def is_saving(self) -> bool:
        return self._saver.is_saving


def _prepared(optimizer, name, stored):
    """The state of an optimizer to be filled: that of one which has made no step yet is made as the checkpoint has it."""
    state_dict = optimizer.state_dict()
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    prefix = _joined(name, "state.")
    for tensor_name, (dtype, shape) in stored.tensors.items():
        index, _, key = tensor_name.removeprefix(prefix).partition(".")
        if not tensor_name.startswith(prefix) or not index.isdigit() or int(index) >= len(parameters):
            continue
        of_parameter = state_dict["state"].setdefault(int(index), {})
        if key not in of_parameter:
            parameter = parameters[int(index)]
            is_alike = tuple(shape) == tuple(parameter.shape) and shape
            of_parameter[key] = (
                torch.empty_like(parameter, dtype=dtype, requires_grad=False) if is_alike else torch.empty(shape, dtype=dtype)
            )
    return state_dict


class _Loader:
    """Fills a state of the same structure as the one that was saved."""

    def __init__(self, stored):
        self.stored = stored
        self.flat = _Flat("load")
        self.finish = []  # calls of load_state_dict, once everything is read

    def add(self, name, value):
        """Notes the tensors and the names of values in it; returns what takes its place once all are read."""
        if isinstance(value, nn.Module):
            if has_meta(value):
                give_memory_to(value, [name_in for name_in in value.state_dict() if _joined(name, name_in) in self.stored.tensors])
            state_dict = value.state_dict()
            filled = self.add(name, state_dict)
            if any(not isinstance(each, torch.Tensor) for each in state_dict.values()):
                self.finish.append(lambda: value.load_state_dict(filled()))
            return lambda: value
        if isinstance(value, torch.optim.Optimizer):
            filled = self.add(name, _prepared(value, name, self.stored))
            self.finish.append(lambda: value.load_state_dict(filled()))
            return lambda: value
        if _has_state(value):
            filled = self.add(name, value.state_dict())
            self.finish.append(lambda: value.load_state_dict(filled()))
            return lambda: value
        if isinstance(value, torch.Tensor):
            self.flat.add(name, value)
            return lambda: value
        if isinstance(value, Mapping) and (_holds_tensors(value) or not name):
            parts = {key: self.add(_joined(name, key), each) for key, each in value.items()}
            return lambda: _updated(value, {key: part() for key, part in parts.items()})
        if isinstance(value, (list, tuple)) and _holds_tensors(value):
            parts = [self.add(_joined(name, index), each) for index, each in enumerate(value)]
            return lambda: type(value)(part() for part in parts)
        self.flat.add(name, value)
        return lambda: _decoded(json.loads(self.stored.values[name]))


def _updated(mapping, values):
    if hasattr(mapping, "update"):
        mapping.update(values)
        return mapping
    return values


def load(state: Any, folder: _Path, *, verify: bool = True, broadcast: bool = False) -> Any:
    """Fills a state from a checkpoint, whatever mesh and layouts it was saved on, and returns it.

        state = weft.load({"model": model, "optimizer": optimizer, "step": 0}, "run/step_100")

    Tensors, modules and optimizers are filled in place, each rank reading what its shards need; values are replaced, in `state`
    too. A module on meta gets its memory, an optimizer that has made no step its state. Raises for names that the checkpoint lacks;
    what else it has is not read. `verify` compares checksums. With `broadcast` one of the ranks that hold the same values reads them and
    sends them to the others, for slow file systems; all ranks must then load the same.
    """
    stored = _C.stored_checkpoint(os.fspath(folder))
    loader = _Loader(stored)
    filled = loader.add("", _checked("load", state))
    missing = [name for name in loader.flat.values if name not in stored.values]
    if missing:
        raise ValueError(
            f"[load] {os.fspath(folder)}: the values that are to be loaded must be in it, but it lacks {', '.join(map(repr, missing))}. "
            "Is it the checkpoint of another program?"
        )
    stored.load(loader.flat.tensors, verify, broadcast)
    for finish in loader.finish:
        finish()
    return filled()


def latest_checkpoint(folder: _Path) -> str | None:
    """The newest complete checkpoint among the folders in `folder`, or None."""
    return _C.latest_checkpoint(os.fspath(folder))
