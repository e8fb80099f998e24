#!/usr/bin/env python3
"""Writes small exported programs that the fuzzers begin with: fuzz/corpus/read_pt2 and fuzz/corpus/read_model.

What fuzzers found since is kept with them; this adds to it.
"""

import io
import json
import warnings
import zipfile
from pathlib import Path

import torch
from torch import nn

CORPUS = Path(__file__).parent / "corpus"
BATCH = torch.export.Dim("batch", min=2, max=64)


class Linear(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3, 2))
        self.b = nn.Parameter(torch.ones(3))

    def forward(self, x):
        with torch.no_grad():
            scale = x.abs() + 1
        return torch.relu(nn.functional.linear(x / scale, self.w, self.b))


class Several(nn.Module):
    def forward(self, x, pair, count=3):
        first, second = x.split(1, dim=-1)
        values, places = torch.topk(x, 1)
        picked = x[:, None, torch.tensor([0, 1])]
        pair["a"].mul_(2.0)
        return {"first": first, "values": values}, places, torch.cat([second, picked[:, 0]], 1).to(torch.bfloat16), count, None


class Sizes(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("c", torch.arange(2))

    def forward(self, x):
        batch = x.shape[0]
        self.c.add_(1)
        return x.view(batch * 2, 1), x.new_zeros((batch + 8) // 2, 2), x.sum() * batch, batch


PROGRAMS = {
    "linear": (Linear(), (torch.ones(4, 2),), {"dynamic_shapes": {"x": {0: BATCH}}}),
    "several": (Several(), (torch.ones(4, 2), {"a": torch.ones(2)}), {}),
    "sizes": (Sizes(), (torch.ones(4, 2),), {"dynamic_shapes": {"x": {0: BATCH}}}),
    "decomposed": (Linear(), (torch.ones(4, 2),), {}),
}


def without_metadata(value):
    """Stack traces and the like take most of a file and are read as text alone."""
    if isinstance(value, dict):
        return {k: {} if k == "metadata" else without_metadata(v) for k, v in value.items()}
    return [without_metadata(v) for v in value] if isinstance(value, list) else value


def records_of(program):
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    with zipfile.ZipFile(buffer) as file:
        records = {name.split("/", 1)[1]: file.read(name) for name in file.namelist()}
    model = without_metadata(json.loads(records["models/model.json"]))
    text = json.dumps(model, separators=(",", ":"))
    for old, new in (("lifted_tensor_0", "c"), (", positive=True, integer=True", "")):
        text = text.replace(old, new)
    kept = ("data/weights", "data/constants", "archive_format")
    kept_records = {name: data for name, data in records.items() if name.startswith(kept)}
    constants = "data/constants/model_constants_config.json"
    kept_records[constants] = kept_records[constants].replace(b"lifted_tensor_0", b"c")
    return kept_records | {"models/model.json": text.encode()}


def main():
    warnings.simplefilter("ignore")
    for name, (module, arguments, options) in PROGRAMS.items():
        program = torch.export.export(module, arguments, **options)
        if name == "decomposed":
            program = program.run_decompositions()
        records = records_of(program)
        for folder in ("read_pt2", "read_model"):
            (CORPUS / folder).mkdir(parents=True, exist_ok=True)
        (CORPUS / "read_model" / name).write_bytes(records["models/model.json"])
        with zipfile.ZipFile(CORPUS / "read_pt2" / name, "w", zipfile.ZIP_STORED) as file:
            for record, data in records.items():
                file.writestr(zipfile.ZipInfo(f"m/{record}"), data)


if __name__ == "__main__":
    main()
