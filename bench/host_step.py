"""Host time of a training step on a mesh of one: forward and backward of a Llama-style decoder of 12 layers on 128 tokens,
whose linears are column and row parallel, against the same model in plain PyTorch and under PyTorch's DTensor. Nothing is
communicated, so every difference to the plain model is the price of being distributed. CPU time of the process; on a GPU
(--device cuda) the time until the host has launched everything. Limit: at most 1.05 times the plain step."""

from contextlib import ExitStack

import rows
from ranks import Side, interleaved_medians, progress, python_peer, started
from rows import Row

MODES = ("plain", "weft", "dtensor")
PARTS = {"forward": " forward", "forward and backward": ""}
DIMS = {"cpu": 64, "cuda": 512}
LIMIT = 1.05


def run(settings):
    dim = DIMS[settings.device]
    with ExitStack() as stack:
        ranks = started(stack, python_peer(settings.peers / "host_step_rank.py"), 1)
        for part, suffix in PARTS.items():
            progress(f"host_step: {part}")
            sides = {mode: Side(ranks, mode + suffix) for mode in MODES}
            medians = interleaved_medians(sides, dim, rounds=20, calls=4)
            for peer in ("plain", "dtensor"):
                yield Row("host_step", f"{part}, dim {dim}", medians["weft"], medians[peer], peer)


def table(all_rows):
    return rows.limited_table(all_rows, {"plain": LIMIT})
