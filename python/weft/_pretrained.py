"""load_pretrained: a folder of safetensors files straight into a parallel model, each rank its shards alone."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import nn

from weft import _C
from weft._materialize import _give_memory, _initialize_module, _left_without_values, _plain_device
from weft._module import check_module


class LoadedKeys(NamedTuple):
    """The names that only the model, or only the folder has."""

    missing_keys: list[str]
    unexpected_keys: list[str]


def _key_map_text(key_map):
    if key_map is None or isinstance(key_map, Mapping):
        return None if key_map is None else json.dumps(key_map)
    with open(key_map, encoding="utf-8") as file:
        return file.read()


def _without(names, patterns):
    """Names but for those that a model of transformers says to ignore."""
    return [name for name in names if not any(re.search(pattern, name) for pattern in patterns or ())]


def _initialize_rest(model, made, loaded, init_fn):
    """Gives values to tensors that were on meta and are not in the folder: buffers that are never saved, and missing ones. A module
    that has a loaded tensor is left to init_fn, because what resets it would reset that too."""
    left = {id(tensor): text for text, _, _, tensor in made if id(tensor) not in loaded}
    own = getattr(model, "_init_weights", None)  # of transformers
    with torch.no_grad(), _C._InitializationScope(torch.Generator().manual_seed(0)) as scope:
        for module in model.modules():
            tensors = [t for t in (*module._parameters.values(), *module._buffers.values()) if t is not None]
            if not any(id(t) in left for t in tensors):
                continue
            if init_fn is not None and init_fn(module) is not NotImplemented:
                continue
            if not any(id(t) in loaded for t in tensors):
                _initialize_module(module, own)
        made = [entry for entry in made if id(entry[3]) in left]
        missing = list(_left_without_values(model, made, scope))
    if missing:
        raise ValueError(
            f"[load_pretrained] every tensor must get its values, but {', '.join(missing)} is not in the folder and nothing else "
            "computes it. Give an init_fn(module) that does."
        )


def load_pretrained(
    model: nn.Module,
    folder: str | os.PathLike,
    *,
    key_map: Mapping[str, Any] | str | os.PathLike | None = None,
    strict: bool = True,
    broadcast: bool = False,
    device: torch.device | str | None = None,
    init_fn: Callable[[nn.Module], Any] | None = None,
) -> LoadedKeys:
    """Fills a model from a folder of safetensors files as Hugging Face's libraries write it, or from a checkpoint of weft.save.

        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))
        weft.parallelize_module(model, mesh, "auto")
        weft.load_pretrained(model, folder)

    Each rank reads its shards alone, converted to the dtypes of the parameters. `key_map` says of which stored tensors the model's are
    made, where names or shapes differ; it is a dict, or the path of a JSON file (docs/checkpoints.md). Of a tied parameter any of its
    names may be stored. Names that only one side has raise, unless strict is False; they are returned, as load_state_dict does.
    Tensors on meta that are not in the folder are given values by `init_fn(module)`, which returns NotImplemented for modules that
    it leaves to the model's own `_init_weights` or `reset_parameters`. With `broadcast` one of the ranks that hold the same values reads
    them and sends them to the others.
    """
    check_module("load_pretrained", model)
    folder = os.fspath(folder)
    names_of = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if isinstance(tensor, torch.Tensor):
            names_of.setdefault(id(tensor), []).append(name)
    stored = _C.stored_pretrained(folder)
    stored, missing, unexpected = _C.match_keys(stored, list(names_of.values()), _key_map_text(key_map))
    missing = _without(missing, getattr(model, "_keys_to_ignore_on_load_missing", None))
    unexpected = _without(unexpected, getattr(model, "_keys_to_ignore_on_load_unexpected", None))
    if strict and (missing or unexpected):
        raise ValueError(
            f"[load_pretrained] {folder}: the model and the folder must have the same names, but the folder lacks "
            f"{missing or 'none'}, and the model lacks {unexpected or 'none'}. Give a key_map, or strict=False."
        )
    made = _give_memory(model, _plain_device(model, device))
    # Plain tensors on meta were replaced.
    now = {name: tensor for name, tensor in model.state_dict(keep_vars=True).items() if name in stored.tensors}
    stored.load(now, True, broadcast)
    _initialize_rest(model, made, {id(tensor) for tensor in now.values()}, init_fn)
    return LoadedKeys(missing, unexpected)
