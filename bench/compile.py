"""A training step of a small Llama-style decoder under torch.compile(fullgraph=True), tensor-parallel over two processes over
gloo, with the optimizer outside, and the time to compile it, with nothing in Inductor's cache: Weft against local code that is
written by hand with functional collectives, and PyTorch's DTensor. Then a step in C++ that is recorded and replayed
(graph::CapturedStep), with two ranks as threads, against the same step in eager mode and JAX's compiled step. The losses of all
Python sides must agree with those of the full model."""

from contextlib import ExitStack

import rows
from ranks import Side, interleaved_medians, interleaved_rounds, medians_of, progress, python_peer, started
from rows import Row, number
from training import jax_peer

DIMS = (128, 512)
MODES = ("weft", "local", "dtensor")
# (what, peer): the limit of the ratio.
LIMITS = {
    ("step", "local"): 1.03,
    ("compile", "local"): 1.3,
    ("replay", "eager"): 0.9,
    ("replay", "jax"): 0.9,
}
# At dim 512 a step is mostly matmuls, and a replay runs the same ones.
REPLAY_DIM = 128


def steps(settings):
    with ExitStack() as stack:
        ranks = started(stack, python_peer(settings.peers / "compile_rank.py"), 2)
        for dim in DIMS:
            progress(f"compile: the losses at dim {dim}, then the steps")
            medians = interleaved_medians({mode: Side(ranks, mode) for mode in MODES}, dim, rounds=12, calls=4)
            for peer in MODES[1:]:
                yield Row("compile", f"step, dim {dim}", medians["weft"], medians[peer], peer)


def compilations(settings):
    with ExitStack() as stack:
        ranks = started(stack, python_peer(settings.peers / "compile_rank.py"), 2)
        sides = {mode: Side(ranks, f"compile {mode}") for mode in MODES}
        for dim in DIMS:
            progress(f"compile: the time to compile at dim {dim}")
            medians = medians_of(interleaved_rounds(sides, dim, rounds=2, calls=1))
            for peer in MODES[1:]:
                yield Row("compile", f"compile, dim {dim}", medians["weft"] / 1e3, medians[peer] / 1e3, peer, unit="ms")


def replays(settings):
    plans = settings.peers.parent / "plans"
    with ExitStack() as stack:
        threads = started(stack, [settings.programs / "decoder_main"], 1)
        jax = started(stack, jax_peer(settings), 1)
        sides = {"jax": Side(jax, "jax")}
        for name, plan in (("", "decoder.json"), (" sequence", "decoder_sequence.json")):
            sides[f"eager{name}"] = Side(threads, str(plans / plan))
            sides[f"replay{name}"] = Side(threads, f"replay {plans / plan}")
        progress(f"compile: replays at dim {REPLAY_DIM}")
        medians = interleaved_medians(sides, REPLAY_DIM, rounds=12, calls=4)
        for name in ("", " sequence"):
            for peer in ("eager", "jax"):
                side = peer if peer == "jax" else f"eager{name}"
                yield Row("compile", f"replay{name}, dim {REPLAY_DIM}", medians[f"replay{name}"], medians[side], peer)


def run(settings):
    for part in (steps, compilations, replays):
        yield from part(settings)


def table(all_rows):
    tables = []
    verdicts = []
    for what in ("step", "compile", "replay"):
        of_kind = [row for row in all_rows if row.case.startswith(what)]
        if of_kind:
            tables.append(rows.table(of_kind))
        for row in of_kind:
            limit = LIMITS.get((what, row.peer_name))
            if limit is not None:
                missed = "" if row.ratio <= limit else " is MISSED"
                verdicts.append(f"{row.case} over {row.peer_name}: {number(row.ratio)}, at most {limit}{missed}")
    return "\n\n".join([*tables, "\n".join(verdicts)])
