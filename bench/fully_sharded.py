"""A fully sharded training step of a small Llama-style decoder on two processes over gloo, from Python, against PyTorch's
fully_shard, Weft's own data parallelism with replicated parameters, DistributedDataParallel and a step without communication. The
losses of all of them must agree."""

from contextlib import ExitStack

import rows
from ranks import Side, interleaved_medians, progress, python_peer, started
from rows import Row, number

DIMS = (128, 512)
# (side, peer, limit of the ratio): what is compared.
PAIRS = [
    ("weft", "torch", 0.6),
    ("weft", "weft dp", 1.1),
    ("weft", "ddp", None),
    ("weft", "single", None),
    ("weft global", "torch", 0.6),
    ("weft global", "weft dp", 1.1),
    ("weft global", "ddp", None),
    ("weft global", "single", None),
]
MODES = ("weft", "weft global", "torch", "weft dp", "ddp", "single")


def run(settings):
    with ExitStack() as stack:
        ranks = started(stack, python_peer(settings.peers / "fully_sharded_rank.py"), 2)
        sides = {mode: Side(ranks, mode) for mode in MODES}
        for dim in DIMS:
            progress(f"fully_sharded: the losses at dim {dim}, then the steps")
            medians = interleaved_medians(sides, dim, rounds=8, calls=3)
            for side, peer, _ in PAIRS:
                yield Row("fully_sharded", f"{side}, dim {dim}", medians[side], medians[peer], peer)


def table(all_rows):
    lines = [rows.table(all_rows), ""]
    limits = {(side, peer): limit for side, peer, limit in PAIRS if limit is not None}
    for row in all_rows:
        limit = limits.get((row.case.rpartition(", dim")[0], row.peer_name))
        if limit is not None:
            missed = "" if row.ratio <= limit else " is MISSED"
            lines.append(f"{row.case} over {row.peer_name}: {number(row.ratio)}, at most {limit}{missed}")
    return "\n".join(lines)
