"""Saving and loading a sharded model of WEFT_BENCH_MB megabytes (1024) by two processes, files in the page cache: Weft against writing
with fsync, reading or copying the same bytes, and against torch.distributed.checkpoint. Of safetensors files, against their own slices."""

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from ranks import Side, interleaved_medians, progress, python_peer, started
from rows import Row

CASES = {
    "save": ["raw", "pytorch"],
    "load": ["raw", "pytorch"],
    "turn": ["raw", "pytorch"],
    "async": ["raw", "pytorch"],
    "slices": ["raw"],
    "columns": ["raw"],
}
TEXTS = {
    "save": "save",
    "load": "load as saved",
    "turn": "load rows as columns",
    "async": "async save, until it returns",
    "slices": "safetensors, rows",
    "columns": "safetensors, columns",
}


def run(settings):
    megabytes = int(os.environ.get("WEFT_BENCH_MB", "1024"))
    with tempfile.TemporaryDirectory(prefix="weft_bench_") as folder, ExitStack() as stack:
        os.environ["TMPDIR"] = folder
        script = settings.peers / "checkpoint_rank.py"
        by_weft = started(stack, python_peer(script), 2)
        by_others = started(stack, python_peer(script), 2)  # processes that do not import weft
        for case, peers in CASES.items():
            progress(f"checkpoint: {TEXTS[case]}, {megabytes} MB")
            sides = {"weft": Side(by_weft, f"weft {case}")}
            if case in ("load", "turn"):
                sides["unverified"] = Side(by_weft, f"unverified {case}")
            sides |= {peer: Side(by_others, f"{peer} {case}") for peer in peers}
            medians = interleaved_medians(sides, megabytes, rounds=3, calls=2)
            for name in ("weft", "unverified"):
                for peer in peers if name in medians else []:
                    text = TEXTS[case] + (", no checksums" if name == "unverified" else "")
                    yield Row("checkpoint", text, medians[name], medians[peer], peer)
        for left in Path(folder).iterdir():
            shutil.rmtree(left)
