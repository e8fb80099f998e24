"""What a call on distributed tensors costs over the same call on their local ones, microseconds of CPU time, every call
cached, no gradients, one thread, on the first rank of a fake world of eight: Weft in C++, the package weft from Python,
and PyTorch's DTensor. Limits, for Weft: at most 1.0 in the median case, 2 in any case of one call and 0.8 in those of
BELOW; 10 times below PyTorch in every case; a step of AdamW on 100 parameters at most 1.25 times the local one."""

import json
import operator
import statistics
from contextlib import ExitStack
from dataclasses import asdict, dataclass

from ranks import Side, interleaved_rounds, progress, python_peer, started
from rows import aligned, number

CASES = (
    "add add_ mul_scalar mul_scalar_ mul_broadcast relu where cat split mm_row mm_column linear_3d t sum_dim softmax "
    "log_softmax layer_norm detach from_local redistribute"
).split()
BELOW = "mul_scalar_ mul_broadcast where cat split log_softmax".split()
STEPS = ("adamw_100", "adamw_100_foreach")


@dataclass(frozen=True)
class Overhead:
    """Microseconds of a local call, and what is added to it on each side, each to its own local one."""

    case: str
    local: float
    weft: float
    python_local: float
    python: float
    pytorch: float

    @property
    def is_step(self):
        return self.case in STEPS

    def to_json(self):
        values = {name: value if name == "case" else round(value, 4) for name, value in asdict(self).items()}
        return json.dumps({"bench": "dispatch", **values, "unit": "us"})


def measured(programs, case, batch, rounds):
    sides = {
        (name, kind): Side(ranks, f"{case} {kind}")
        for name, ranks in programs.items()
        for kind in ("local", "distributed")
    }
    # The machine has slow moments: a difference is one of neighbours in time, and of its differences the median counts.
    times = {
        side: [min(calls) / batch for calls in lists]
        for side, lists in interleaved_rounds(sides, batch, rounds, calls=3).items()
    }
    local = {name: statistics.median(times[name, "local"]) for name in programs}
    over = {
        name: statistics.median(map(operator.sub, times[name, "distributed"], times[name, "local"])) for name in programs
    }
    return Overhead(case, local["weft"], over["weft"], local["python"], over["python"], over["pytorch"])


def run(settings):
    script = settings.peers / "dispatch_fake.py"
    with ExitStack() as stack:
        programs = {
            "weft": started(stack, [settings.programs / "dispatch_main"], 1),
            "python": started(stack, python_peer(script, "weft"), 1),
            "pytorch": started(stack, python_peer(script, "pytorch"), 1),
        }
        for case in CASES:
            progress(f"dispatch: {case}")
            yield measured(programs, case, batch=100, rounds=30)
        for case in STEPS:
            progress(f"dispatch: {case}")
            yield measured(programs, case, batch=1, rounds=20)


def times_below(pytorch, weft):
    """How many times less than PyTorch's overhead; one that cannot be told from nothing is not divided by."""
    return f"{number(pytorch / weft)}x" if weft > 0.01 else "-"


def table(rows):
    lines = [["case", "local (us)", "weft C++", "weft Python", "pytorch", "below: C++", "Python"]]
    for row in rows:
        ratios = [times_below(row.pytorch, over) for over in (row.weft, row.python)]
        lines.append([row.case, *map(number, (row.local, row.weft, row.python, row.pytorch)), *ratios])
    return "\n".join([aligned(lines), "", *verdicts(rows)])


def verdict(text, value, limit, is_least=False):
    holds = value >= limit if is_least else value <= limit
    return f"{text}: {number(value)}, {'at least' if is_least else 'at most'} {limit}{'' if holds else ' is MISSED'}"


def verdicts(rows):
    """The required limits next to the measured times."""
    calls = [row for row in rows if not row.is_step]
    for name, field in (("C++", "weft"), ("Python", "python")):
        overheads = {row.case: getattr(row, field) for row in calls}
        worst = max(overheads, key=overheads.get)
        yield verdict(f"{name}: the median of the calls", statistics.median(overheads.values()), 1.0)
        yield verdict(f"{name}: the dearest call, {worst}", overheads[worst], 2.0)
        dearest = max(BELOW, key=overheads.get)
        yield verdict(f"{name}: the dearest of {', '.join(BELOW)}, {dearest}", overheads[dearest], 0.8)
        below = {row.case: row.pytorch / max(getattr(row, field), 0.01) for row in rows}
        closest = min(below, key=below.get)
        yield verdict(f"{name}: times below PyTorch, {closest}", below[closest], 10, is_least=True)
    for row in rows:
        if row.is_step:
            yield verdict(f"C++: {row.case} over the local step", 1 + row.weft / row.local, 1.25)
            yield verdict(f"Python: {row.case} over the local step", 1 + row.python / row.python_local, 1.25)
