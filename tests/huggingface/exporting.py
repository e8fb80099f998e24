"""Programs that torch.export makes of the architectures, as files, with the inputs and outputs of one call."""

import copy
import dataclasses
import functools
import os
import sys
import tempfile
from pathlib import Path

import torch
from architectures import ARCHITECTURES
from on_ranks import batch_of
from torch.utils._pytree import tree_leaves
from transformers.integrations.executorch import TorchExportableModuleWithStaticCache, register_dynamic_cache_export_support

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "python"))
from exported_models.exporting import named_inputs

FOLDER = tempfile.TemporaryDirectory(prefix="weft_exports_")

# Why transformers cannot export a call of some generating models with a cache, and what torch.export says then.
WITHOUT_CACHE = {
    "T5": ("an EncoderDecoderCache is no pytree", "Found <class 'transformers.cache_utils.EncoderDecoderCache'> in output"),
    "Whisper": ("an EncoderDecoderCache is no pytree", "Found <class 'transformers.cache_utils.EncoderDecoderCache'> in output"),
    "Mamba": ("the cache of a state space is no pytree", "DynamicCache containing only `DynamicLayer`"),
}
# Fewer than the sliding window has: export takes a cache that slides for one that does not.
CACHED_TOKENS = 3


@dataclasses.dataclass
class Exported:
    path: Path
    inputs: dict
    expected: list


@functools.cache
def _register_caches():
    """Once. From then on torch's pytree raises for the caches of Mamba."""
    register_dynamic_cache_export_support()


def tensors_of(values):
    return [value.detach() for value in tree_leaves(values) if isinstance(value, torch.Tensor)]


def arguments_of(name):
    """What a call without a loss is given."""
    architecture = ARCHITECTURES[name]
    batch = batch_of(architecture)
    labels = batch.pop("labels", None)
    batch.pop("return_loss", None)
    if architecture.batch in ("pairs", "sounds"):
        batch["decoder_input_ids"] = labels
    return batch | ({"use_cache": False} if architecture.generates else {})


def has_cache(name):
    return ARCHITECTURES[name].generates and name not in WITHOUT_CACHE


def saved(model, arguments, name, is_strict=False):
    _register_caches()
    with torch.no_grad():
        expected = tensors_of(copy.deepcopy(model)(**copy.deepcopy(arguments)))
    program = torch.export.export(model, (), arguments, strict=is_strict)
    path = Path(FOLDER.name) / f"{name}.pt2"
    torch.export.save(program, path)
    return Exported(path, named_inputs(program, arguments), expected)


@functools.cache
def exported(name):
    """Not strictly, without a cache."""
    return saved(ARCHITECTURES[name].make(), arguments_of(name), name)


@functools.cache
def strictly_exported(name):
    """A step of decoding for a model with a cache: a DynamicCache of the first tokens goes in, and a longer one out."""
    model, arguments = ARCHITECTURES[name].make(), arguments_of(name)
    if has_cache(name):
        tokens = arguments["input_ids"]
        with torch.no_grad():
            cache = model(tokens[:, :CACHED_TOKENS], use_cache=True).past_key_values
        arguments = {"input_ids": tokens[:, CACHED_TOKENS:], "past_key_values": cache, "use_cache": True}
    return saved(model, arguments, f"{name}_strict", is_strict=True)


def with_cache_output(name):
    """Keys and values go out, in the model's own cache."""
    return saved(ARCHITECTURES[name].make(), arguments_of(name) | {"use_cache": True}, f"{name}_output")


def with_static_cache(name):
    """A StaticCache, whose tensors are buffers that the program writes to, as transformers exports it."""
    model = ARCHITECTURES[name].make()
    model.generation_config.cache_implementation = "static"
    decoder = TorchExportableModuleWithStaticCache(model, batch_size=1, max_cache_len=16)
    arguments = {"input_ids": torch.tensor([[5]]), "cache_position": torch.tensor([0])}
    return saved(decoder, arguments, f"{name}_static", is_strict=True)
