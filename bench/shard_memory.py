"""The most memory that `weft shard` has at a time, in megabytes, for a model of 2 GB over four ranks, against the limit: the
largest tensor and 300 MB. The model has a table, layers whose weights are joined of two (so that a rank's shard is not
contiguous in the file), and layers that are sharded by columns."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ranks import progress
from rows import Row

MAY_HAVE = 300  # on top of the largest tensor
RANKS = 4
PLAN = {"table": "rowwise", "layers.*.up": {"style": "colwise", "parts": 2}, "layers.*.down": "rowwise"}

# In a process of its own, so that the one that measures stays small: what a process had before it starts another counts as
# that one's too.
MAKE_MODEL = """
import sys, torch
from torch import nn

class Layer(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(dim, 2 * hidden, bias=False), nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        gate, value = self.up(x).chunk(2, -1)
        return x + self.down(nn.functional.silu(gate) * value)

class Model(nn.Module):
    def __init__(self, words, dim, hidden, layers):
        super().__init__()
        self.table = nn.Embedding(words, dim)
        self.layers = nn.ModuleList(Layer(dim, hidden) for _ in range(layers))

    def forward(self, tokens):
        x = self.table(tokens)
        for layer in self.layers:
            x = layer(x)
        return x

with torch.device("meta"):
    model = Model(words=32768, dim=1536, hidden=4992, layers=20)
model = model.to_empty(device="cpu")  # a value like another
torch.export.save(torch.export.export(model, (torch.zeros(1, 8, dtype=torch.int64),)), sys.argv[1])
sizes = [parameter.nbytes for parameter in model.parameters()]
print(sum(sizes), max(sizes))
"""


def peak_of(command):
    """In bytes, of a command that must succeed."""
    process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} failed")
    return usage.ru_maxrss * 1024


def run(settings):
    with tempfile.TemporaryDirectory(prefix="weft_shard_memory_") as folder:
        folder = Path(folder)
        if shutil.disk_usage(folder).free < 6 << 30:
            raise RuntimeError(f"shard_memory: 6 GB are needed in {folder.parent}; TMPDIR names another place")
        progress("shard_memory: making the model")
        made = subprocess.run(
            [sys.executable, "-c", MAKE_MODEL, folder / "model.pt2"], check=True, stdout=subprocess.PIPE, text=True
        )
        total, largest = map(int, made.stdout.split())
        (folder / "plan.json").write_text(json.dumps(PLAN))
        progress("shard_memory: sharding it")
        weft = settings.programs.parent / "bin/weft"
        shard = [weft, "shard", folder / "model.pt2", "--mesh", f"tp={RANKS}", "--plan", folder / "plan.json"]
        peak = peak_of([*shard, "-o", folder / "out"])
        case = f"{total / 1e9:.1f} GB, the largest tensor {largest / 1e6:.0f} MB"
        row = Row("shard_memory", case, peak / 1e6, largest / 1e6 + MAY_HAVE, "may have", unit="MB")
        yield row
        if row.ratio > 1:
            raise RuntimeError(f"weft shard took {row.weft:.0f} MB, but may have {row.peer:.0f}")
