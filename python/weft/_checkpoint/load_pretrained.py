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
from weft._checkpoint.named_state import check_has_memory, fills_module
from weft._modules.distribute import check_module
from weft._modules.materialize import has_meta, prepare_to_load


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
            check_has_memory("load_pretrained", name, tensor)
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
    if has_meta(model):
        # Before loading, because what computes the tensors that the folder lacks may overwrite others of the same module.
        stored_names = {name for names in names_of.values() if any(each in stored.tensors for each in names) for name in names}
        prepare_to_load("load_pretrained", model, stored_names, device, init_fn)
    # Plain tensors on meta were replaced.
    state_dict = model.state_dict(keep_vars=True)
    wanted = {name: tensor for name, tensor in state_dict.items() if name in stored.tensors}
    stored.load(wanted, True, broadcast)
    if not fills_module(model, wanted):
        model.load_state_dict(wanted, strict=False)
    return LoadedKeys(missing, unexpected)
