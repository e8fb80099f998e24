"""Weft's collectives over gloo against torch.distributed's own, and the two ways of an all_reduce against each other:
one round, in which every member sends its input to every other, and two, a reduce_scatter and an all_gather. The size is
that of a rank's input."""

from contextlib import ExitStack

from ranks import Side, interleaved_medians, progress, python_peer, started
from rows import Row

CASES = ["all_gather", "all_to_all", "reduce_scatter", "all_reduce", "broadcast"]
# (text, rows of 4 KB, rounds, calls per round)
SIZES = [("4 KB", 1, 12, 30), ("64 KB", 16, 12, 30), ("1 MB", 256, 12, 10), ("16 MB", 4096, 6, 4)]
ROUND_SIZES = [
    ("4 KB", 1, 12, 25),
    ("16 KB", 4, 12, 25),
    ("64 KB", 16, 12, 25),
    ("256 KB", 64, 12, 15),
    ("1 MB", 256, 12, 10),
    ("4 MB", 1024, 8, 6),
    ("16 MB", 4096, 6, 4),
]


def against_torch(weft, torch):
    for text, rows, rounds, calls in SIZES:
        for case in CASES:
            progress(f"collectives: {case} {text}")
            sides = {"weft": Side(weft, case), "torch": Side(torch, case)}
            medians = interleaved_medians(sides, rows, rounds, calls)
            yield Row("collectives", f"{case} {text}", medians["weft"], medians["torch"], "torch.distributed")


def one_round_against_two(weft, size):
    for text, rows, rounds, calls in ROUND_SIZES:
        progress(f"collectives: all_reduce in one round or two, {text}, {size} ranks")
        sides = {"one": Side(weft, "all_reduce/one"), "two": Side(weft, "all_reduce/two")}
        medians = interleaved_medians(sides, rows, rounds, calls)
        case = f"all_reduce in one round {text}, {size} ranks"
        yield Row("collectives", case, medians["one"], medians["two"], "two rounds")


def run(settings):
    program = [settings.programs / "collectives_main"]
    with ExitStack() as stack:
        weft = started(stack, program, 2)
        torch = started(stack, python_peer(settings.peers / "collectives_rank.py"), 2)
        yield from against_torch(weft, torch)
        yield from one_round_against_two(weft, 2)
    with ExitStack() as stack:
        yield from one_round_against_two(started(stack, program, 4), 4)
