"""A training step of a small Llama-style decoder from Python, on two processes over gloo, the modes taking turns in the
same processes: Weft, PyTorch's DTensor, and the step written by hand with bare collectives. The losses must agree, with
those of the whole model on one rank too. Limit: Weft at most 1.05 times the step written by hand."""

from contextlib import ExitStack

import rows
from ranks import Side, interleaved_medians, progress, python_peer, started
from rows import Row, number

MODES = ("weft", "megatron", "dtensor", "single")
DIMS = (128, 512)
LIMIT = 1.05


def run(settings):
    with ExitStack() as stack:
        ranks = started(stack, python_peer(settings.peers / "decoder_rank.py"), 2)
        for dim in DIMS:
            progress(f"python: the losses at dim {dim}, then the steps")
            sides = {mode: Side(ranks, mode) for mode in MODES}
            medians = interleaved_medians(sides, dim, rounds=16, calls=4)
            for peer in MODES[1:]:
                yield Row("python", f"step, dim {dim}", medians["weft"], medians[peer], peer)


def table(all_rows):
    lines = [rows.table(all_rows), ""]
    for row in all_rows:
        if row.peer_name == "megatron":
            missed = "" if row.ratio <= LIMIT else " is MISSED"
            lines.append(f"{row.case} over the step written by hand: {number(row.ratio)}, at most {LIMIT}{missed}")
    return "\n".join(lines)
