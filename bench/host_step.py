"""Host time of a training step on a mesh of one: forward and backward of a Llama-style decoder of 12 layers on 128 tokens,
whose linears are column and row parallel, against the same model in plain PyTorch and under PyTorch's DTensor. Nothing is
communicated, so every difference to the plain model is the price of being distributed. CPU time of the process; on a GPU
(--device cuda) the time until the host has launched everything. Limit: at most 1.05 times the plain step."""

from contextlib import ExitStack

import rows
from ranks import Side, interleaved_medians, progress, python_peer, started
from rows import Row, number

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
    lines = [rows.table(all_rows), ""]
    for row in all_rows:
        if row.peer_name == "plain":
            missed = "" if row.ratio <= LIMIT else " is MISSED"
            lines.append(f"{row.case} over {row.peer_name}: {number(row.ratio)}, at most {LIMIT}{missed}")
    return "\n".join(lines)
