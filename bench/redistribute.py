"""Redistribution between two processes over gloo, against the bare collective that moves the same bytes and PyTorch's
DTensor. Sizes are those of a shard: rows of 1,024 floats; a partial value and a replica have twice as many."""

from contextlib import ExitStack

from ranks import Side, interleaved_medians, progress, python_peer, started
from rows import Row

CASES = ["S(0)->R", "S(0)->S(1)", "P->S(0)", "P->R"]
# (text, rows, rounds, calls per round)
SIZES = [("4 KB", 1, 30, 30), ("1 MB", 244, 40, 8), ("16 MB", 3906, 16, 4)]


def run(settings):
    with ExitStack() as stack:
        weft = started(stack, [settings.programs / "redistribute_main"], 2)
        torch = started(stack, python_peer(settings.peers / "redistribute_rank.py"), 2)
        for text, rows, rounds, calls in SIZES:
            for case in CASES:
                progress(f"redistribute: {case} {text}")
                sides = {
                    "weft": Side(weft, case),
                    "bare": Side(torch, f"bare {case}"),
                    "pytorch": Side(torch, f"pytorch {case}"),
                }
                medians = interleaved_medians(sides, rows, rounds, calls)
                for peer in ("bare", "pytorch"):
                    yield Row("redistribute", f"{case} {text}", medians["weft"], medians[peer], peer)
