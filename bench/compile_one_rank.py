"""A training step under torch.compile(fullgraph=True) on a mesh of one, with fused AdamW outside the graph: a Llama-style decoder
of 12 layers on 128 tokens, whose linears are column and row parallel, against the same model in plain PyTorch and under PyTorch's
DTensor, in the modes 'default' and 'reduce-overhead'. Nothing is communicated, so every difference to the plain model is the
price of being distributed. The time until the step is done, on the GPU too (--device cuda). The losses of all sides must agree.
Limit: at most 1.05 times the plain step."""

from contextlib import ExitStack

import rows
from host_step import DIMS, LIMIT, MODES
from ranks import Side, interleaved_medians, progress, python_peer, started
from rows import Row

COMPILE_MODES = ("default", "reduce-overhead")


def run(settings):
    dim = DIMS[settings.device]
    with ExitStack() as stack:
        ranks = started(stack, python_peer(settings.peers / "compile_one_rank.py"), 1)
        for compile_mode in COMPILE_MODES:
            progress(f"compile_one_rank: {compile_mode}")
            sides = {mode: Side(ranks, f"{mode} {compile_mode}") for mode in MODES}
            medians = interleaved_medians(sides, dim, rounds=20, calls=4)
            for peer in ("plain", "dtensor"):
                yield Row("compile_one_rank", f"{compile_mode}, dim {dim}", medians["weft"], medians[peer], peer)


def table(all_rows):
    return rows.limited_table(all_rows, {"plain": LIMIT})
