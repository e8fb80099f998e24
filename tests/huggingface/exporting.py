"""Programs that torch.export makes of the architectures, as files, with the inputs and outputs of one call."""

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

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "python"))
from exported_models.exporting import named_inputs

FOLDER = tempfile.TemporaryDirectory(prefix="weft_exports_")


@dataclasses.dataclass
class Exported:
    path: Path
    inputs: dict
    expected: list


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


def saved(model, arguments, name, is_strict=False):
    with torch.no_grad():
        expected = tensors_of(model(**arguments))
    program = torch.export.export(model, (), arguments, strict=is_strict)
    path = Path(FOLDER.name) / f"{name}.pt2"
    torch.export.save(program, path)
    return Exported(path, named_inputs(program, arguments), expected)


@functools.cache
def exported(name, is_strict=False):
    return saved(ARCHITECTURES[name].make(), arguments_of(name), f"{name}_{is_strict}", is_strict)
