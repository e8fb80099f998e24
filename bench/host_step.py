"""Host time of a training step on a mesh of one: forward and backward of a Llama-style decoder of 12 layers on 128 tokens,
whose linears are column and row parallel, against the same model in plain PyTorch and under PyTorch's DTensor. Nothing is
communicated, so every difference to the plain model is the price of being distributed. CPU time of the process; on a GPU
(--device cuda) the time until the host has launched everything. Limit: at most 1.05 times the plain step. Two more rows are
the hooks of one column linear: `enter` makes its input distributed, `leave` its output plain again. Limit: 2 microseconds."""

from contextlib import ExitStack

import rows
from ranks import Side, interleaved_medians, progress, python_peer, started
from rows import Row

MODES = ("plain", "weft", "dtensor")
PARTS = {"forward": " forward", "forward and backward": ""}
DIMS = {"cpu": 64, "cuda": 512}
LIMIT = 1.05
BATCH = 100  # calls of a hook that are timed together
HOOKS = ("enter", "leave")
MOST_OF_A_HOOK = 2.0


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
        for hook in HOOKS:
            progress(f"host_step: {hook}")
            sides = {mode: Side(ranks, f"{mode} {hook}") for mode in ("weft", "dtensor")}
            medians = interleaved_medians(sides, dim, rounds=20, calls=4)
            yield Row("host_step", hook, medians["weft"] / BATCH, medians["dtensor"] / BATCH, "dtensor")


def table(all_rows):
    lines = [rows.limited_table(all_rows, {"plain": LIMIT})]
    for row in all_rows:
        if row.case in HOOKS:
            missed = "" if row.weft <= MOST_OF_A_HOOK else " is MISSED"
            lines.append(f"{row.case}: {rows.number(row.weft)}, at most {MOST_OF_A_HOOK}{missed}")
    return "\n".join(lines)
