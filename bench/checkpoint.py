"""Saving and loading a sharded model of WEFT_BENCH_MB megabytes (1024) by two processes, files in the page cache: Weft against writing
with fsync, reading or copying the same bytes, and against torch.distributed.checkpoint. Of safetensors files, against their own slices.
Short rows of four processes, against reading the same bytes. The most memory of a rank while it loads, against its shards and 64 MB."""

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import rows
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
    "narrow": "load rows of 2 KB as columns, four ranks",
}
MEMORY_CASES = {"load": 1, "turn": 1, "convert": 2, "pretrained": 1}  # how many times the bytes of the files a shard has
MAY_HAVE = 64  # megabytes on top of the shards


def times(settings, megabytes, cases, size):
    with ExitStack() as stack:
        script = settings.peers / "checkpoint_rank.py"
        by_weft = started(stack, python_peer(script), size)
        by_others = started(stack, python_peer(script), size)  # processes that do not import weft
        for case, peers in cases.items():
            progress(f"checkpoint: {TEXTS[case]}, {megabytes} MB")
            sides = {"weft": Side(by_weft, f"weft {case}")}
            if case in ("load", "turn", "narrow"):
                sides["unverified"] = Side(by_weft, f"unverified {case}")
            sides |= {peer: Side(by_others, f"{peer} {case}") for peer in peers}
            medians = interleaved_medians(sides, megabytes, rounds=3, calls=2)
            for name in ("weft", "unverified"):
                for peer in peers if name in medians else []:
                    text = TEXTS[case] + (", no checksums" if name == "unverified" else "")
                    yield Row("checkpoint", text, medians[name], medians[peer], peer)


def memory(settings, megabytes):
    for case, factor in MEMORY_CASES.items():
        progress(f"checkpoint: memory of {case}, {megabytes} MB")
        with ExitStack() as stack:
            ranks = started(stack, python_peer(settings.peers / "checkpoint_memory.py"), 2)
            most = ranks.time(case, megabytes, 1)[0]
        limit = factor * (megabytes // 16 * 16 * 1.048576) / 2 + MAY_HAVE
        yield Row("checkpoint", f"memory, {case}", most, limit, "may have", unit="MB")


def run(settings):
    megabytes = int(os.environ.get("WEFT_BENCH_MB", "1024"))
    with tempfile.TemporaryDirectory(prefix="weft_bench_") as folder:
        os.environ["TMPDIR"] = folder
        for part in (
            times(settings, megabytes, CASES, 2),
            times(settings, megabytes, {"narrow": ["raw"]}, 4),
            memory(settings, megabytes),
        ):
            yield from part
            for left in Path(folder).iterdir():
                shutil.rmtree(left)


def table(all_rows):
    tables = [[row for row in all_rows if row.unit == unit] for unit in ("us", "MB")]
    missed = [f"{row.case}: more than it may have" for row in all_rows if row.unit == "MB" and row.ratio > 1]
    return "\n\n".join([*[rows.table(some) for some in tables if some], *(["\n".join(missed)] if missed else [])])
