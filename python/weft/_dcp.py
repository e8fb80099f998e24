"""`weft checkpoint export|import --format dcp`: checkpoints of torch.distributed.checkpoint, whose format only Python reads."""

import argparse
import json

import torch

from weft import _C
from weft._save import save
from weft._value_json import decoded


def export_dcp(source: str, target: str, prefix: str = "") -> int:
    """Writes a checkpoint of weft.save, or the part of it whose names begin so, for dcp.load. All of it is in memory at once."""
    import torch.distributed.checkpoint as dcp

    stored = _C.stored_checkpoint(source)
    tensors = {name: torch.empty(shape, dtype=dtype) for name, (dtype, shape) in stored.tensors.items() if name.startswith(prefix)}
    values = {name: decoded(json.loads(text)) for name, text in stored.values.items() if name.startswith(prefix)}
    if not tensors and not values:
        raise ValueError(f"[checkpoint] {source}: names that begin with '{prefix}' are required, but there are none.")
    stored.load(tensors)
    state = {name.removeprefix(prefix): value for name, value in (tensors | values).items()}
    dcp.save(state, checkpoint_id=target, no_dist=True)
    return len(tensors)


def import_dcp(source: str, target: str, prefix: str = "") -> int:
    """Writes what dcp.save wrote as a checkpoint of weft.save. All of it is in memory at once."""
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    metadata = dcp.FileSystemReader(source).read_metadata().state_dict_metadata
    state = {
        name: torch.empty(of.size, dtype=of.properties.dtype) if isinstance(of, TensorStorageMetadata) else None
        for name, of in metadata.items()
    }
    dcp.load(state, checkpoint_id=source, no_dist=True)
    save({prefix + name: value for name, value in state.items()}, target)
    return sum(isinstance(value, torch.Tensor) for value in state.values())


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="weft checkpoint")
    parser.add_argument("way", choices=("export", "import"))
    parser.add_argument("source")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--format", choices=("dcp",), required=True)
    parser.add_argument("--prefix", default="")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    count = (export_dcp if given.way == "export" else import_dcp)(given.source, given.output, given.prefix)
    print(json.dumps({"folder": given.output, "tensors": count}) if given.json else f"written to {given.output}: {count} tensors")
