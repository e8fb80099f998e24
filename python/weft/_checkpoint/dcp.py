"""`weft checkpoint export|import --format dcp`: checkpoints of torch.distributed.checkpoint, whose format only Python reads."""

import argparse
import json
import sys
from collections.abc import Mapping

import torch

from weft import _C
from weft._checkpoint.named_state import is_optimizer_state
from weft._checkpoint.save import save
from weft._checkpoint.value_json import decoded, joined

_BAR = 40


def _show_nothing(text, done):
    pass


def _show_bar(text, done):
    """On a terminal, as the command shows it for its other conversions."""
    filled = round(_BAR * done)
    bar = f"{text} {'█' * filled}{'░' * (_BAR - filled)} {done:.0%}" if done < 1 else ""
    print(f"\r\033[K{bar}", end="", file=sys.stderr, flush=True)


def _read(stored, tensors, show, text):
    """One tensor after the other, so that there is progress to be seen."""
    total = sum(tensor.nbytes for tensor in tensors.values()) or 1
    done = 0
    for name, tensor in tensors.items():
        stored.load({name: tensor})
        done += tensor.nbytes
        show(text, done / total)


def export_dcp(source: str, target: str, prefix: str = "", show=_show_nothing) -> int:
    """Writes a checkpoint of weft.save, or the part of it whose names begin so, for dcp.load. All of it is in memory at once."""
    import torch.distributed.checkpoint as dcp

    stored = _C.stored_checkpoint(source)
    tensors = {name: torch.empty(shape, dtype=dtype) for name, (dtype, shape) in stored.tensors.items() if name.startswith(prefix)}
    state, of_objects = {}, set()

    def tensor_of(name):
        of_objects.add(name)
        return tensors[name]

    for name, text in stored.values.items():
        if joined(name, "") == prefix:  # the object itself
            state.update(decoded(json.loads(text), tensor_of))
        elif name.startswith(prefix):
            state[name.removeprefix(prefix)] = decoded(json.loads(text), tensor_of)
    state.update({name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name not in of_objects})
    if not state:
        raise ValueError(f"[checkpoint] {source}: names that begin with '{prefix}' are required, but there are none.")
    _read(stored, tensors, show, "reading " + source)
    dcp.save(state, checkpoint_id=target, no_dist=True)
    return len(tensors)


def _with_parameter_numbers(value):
    """The keys of an optimizer's state are numbers again, where torch.distributed.checkpoint made texts of them."""
    if isinstance(value, list):
        return [_with_parameter_numbers(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    if is_optimizer_state(value):
        keys = {str(key): key for group in value["param_groups"] for key in group["params"]}
        return {**value, "state": {keys.get(key, key): each for key, each in value["state"].items()}}
    return {key: _with_parameter_numbers(each) for key, each in value.items()}


def import_dcp(source: str, target: str, prefix: str = "", max_file_bytes: int = 5 << 30, show=_show_nothing) -> int:
    """Writes what dcp.save wrote as a checkpoint of weft.save. All of it is in memory at once."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint._nested_dict import unflatten_state_dict
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    metadata = dcp.FileSystemReader(source).read_metadata()
    flat = {
        name: torch.empty(of.size, dtype=of.properties.dtype) if isinstance(of, TensorStorageMetadata) else None
        for name, of in metadata.state_dict_metadata.items()
    }
    show("reading " + source, 0)
    dcp.load(flat, checkpoint_id=source, no_dist=True)
    show("reading " + source, 1)
    # planner_data has the path of each name inside of the dicts and lists that were saved.
    state = unflatten_state_dict(flat, metadata.planner_data) if metadata.planner_data else flat
    state = _with_parameter_numbers(state)
    outer, _, inner = prefix.rpartition(".")
    state = {inner + name: value for name, value in state.items()} if inner else state
    state = {outer: state} if outer else state
    save(state, target, max_file_bytes=max_file_bytes)
    return sum(isinstance(value, torch.Tensor) for value in flat.values())


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="weft checkpoint")
    parser.add_argument("way", choices=("export", "import"))
    parser.add_argument("source", help="the folder that weft.save, or dcp.save, wrote")
    parser.add_argument("-o", "--output", required=True, help="the folder to write")
    parser.add_argument("--format", choices=("dcp",), required=True)
    parser.add_argument("--prefix", default="", help="what the names of weft.save's checkpoint begin with, as in model.")
    parser.add_argument("--max-file-gb", type=float, help="of import: the largest file, in gigabytes; 5 if it is not given")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    show = _show_bar if sys.stderr.isatty() and not given.json else _show_nothing
    if given.way == "export":
        if given.max_file_gb is not None:
            parser.error("--max-file-gb is for import: dcp.save makes one file.")
        count = export_dcp(given.source, given.output, given.prefix, show)
    else:
        gigabytes = 5 if given.max_file_gb is None else given.max_file_gb
        if gigabytes <= 0:
            parser.error(f"--max-file-gb must be positive, but got {gigabytes}.")
        count = import_dcp(given.source, given.output, given.prefix, max(1, int(gigabytes * 1e9)), show)
    print(json.dumps({"folder": given.output, "tensors": count}) if given.json else f"written to {given.output}: {count} tensors")
