"""The forward of a small Llama-style decoder on one rank, microseconds of CPU time, one thread, in inference mode: Weft's
executor against the same operators called one by one in C++ by hand, and against the Python module that torch.export makes
of the same model. Limit: at most 1.02 times the time of the calls by hand."""

import operator
import statistics
from contextlib import ExitStack

import rows
from ranks import Side, interleaved_rounds, progress, python_peer, started
from rows import Row

DIMS = (64, 128, 512)
ROUNDS = 40
LIMIT = 1.02


def run(settings):
    with ExitStack() as stack:
        cpp = started(stack, [settings.programs / "executor_main"], 1)
        python = started(stack, python_peer(settings.peers / "export_module.py"), 1)
        sides = {"executor": Side(cpp, "executor"), "by hand": Side(cpp, "hand"), "torch.export": Side(python, "module")}
        for dim in DIMS:
            progress(f"executor: dim {dim}")
            times = interleaved_rounds(sides, dim, ROUNDS, calls=3)
            # The machine has slow moments: a ratio is one of neighbours in time, and of the ratios the median counts.
            best = {name: [min(calls) for calls in lists] for name, lists in times.items()}
            weft = statistics.median(best["executor"])
            for peer in ("by hand", "torch.export"):
                ratio = statistics.median(map(operator.truediv, best["executor"], best[peer]))
                yield Row("executor", f"dim {dim}", weft, weft / ratio, peer)


def table(all_rows):
    return rows.limited_table(all_rows, {"by hand": LIMIT})
