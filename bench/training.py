"""A training step of a small Llama-style decoder, tensor-parallel over two ranks, without and with sequence parallelism: from
Python on two processes over gloo against the step written by hand with bare collectives (Megatron) and PyTorch's DTensor,
from C++ on the same against the Python step written by hand, and from C++ on two ranks that are threads of one process
against JAX's compiled step on two host devices. The losses of all Python modes must agree with those of a single device."""

import os
import subprocess
import sys
from contextlib import ExitStack

import rows
from ranks import Side, interleaved_medians, progress, python_peer, started
from rows import Row, number

DIMS = (128, 512)
# (case, side, peer, limit of the ratio): what is compared.
PAIRS = [
    ("Python, gloo", "weft", "megatron", 1.05),
    ("Python, gloo, sequence", "weft sequence", "megatron sequence", 1.05),
    ("Python, gloo", "weft", "dtensor", None),
    ("Python, gloo", "weft", "single", None),
    ("C++, gloo", "cpp", "megatron", 1.0),
    ("C++, gloo, sequence", "cpp sequence", "megatron sequence", 1.0),
    ("C++, threads", "threads", "jax", 1.0),
    ("C++, threads, sequence", "threads sequence", "jax", 1.0),
]
PYTHON_MODES = ("weft", "weft sequence", "megatron", "megatron sequence", "dtensor", "single")


def jax_python(settings):
    """An interpreter with jax, in an environment of its own, which is made the first time."""
    python = settings.results.parent / "jax" / "bin" / "python"
    if not python.exists() or subprocess.run([python, "-c", "import jax"], capture_output=True).returncode:
        progress("training: making an environment with jax")
        subprocess.run([sys.executable, "-m", "venv", python.parent.parent], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "jax"], check=True)
    return python


def jax_peer(settings):
    # Its own threads are as many as devices; torch's package is not looked for.
    os.environ.pop("PYTHONHOME", None)
    return [jax_python(settings), settings.peers / "decoder_jax.py"]


def run(settings):
    plans = settings.peers.parent / "plans"
    with ExitStack() as stack:
        python = started(stack, python_peer(settings.peers / "decoder_rank.py"), 2)
        cpp = started(stack, [settings.programs / "decoder_main"], 2)
        threads = started(stack, [settings.programs / "decoder_main"], 1)
        jax = started(stack, jax_peer(settings), 1)
        sides = {mode: Side(python, mode) for mode in PYTHON_MODES}
        for name, ranks in (("cpp", cpp), ("threads", threads)):
            sides[name] = Side(ranks, str(plans / "decoder.json"))
            sides[f"{name} sequence"] = Side(ranks, str(plans / "decoder_sequence.json"))
        sides["jax"] = Side(jax, "jax")
        for dim in DIMS:
            progress(f"training: the losses at dim {dim}, then the steps")
            medians = interleaved_medians(sides, dim, rounds=12, calls=4)
            for case, side, peer, _ in PAIRS:
                yield Row("training", f"{case}, dim {dim}", medians[side], medians[peer], peer)


def table(all_rows):
    lines = [rows.table(all_rows), ""]
    limits = {(case, peer): limit for case, _, peer, limit in PAIRS if limit is not None}
    for row in all_rows:
        limit = limits.get((row.case.rpartition(", dim")[0], row.peer_name))
        if limit is not None:
            missed = "" if row.ratio <= limit else " is MISSED"
            lines.append(f"{row.case} over {row.peer_name}: {number(row.ratio)}, at most {limit}{missed}")
    return "\n".join(lines)
