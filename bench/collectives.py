"""Weft's collectives between two processes against torch.distributed's own over gloo, on idle and on busy cores: of one host, through
shared memory, and of two emulated hosts with a core each, through gloo (scripts/two_hosts; needs root); and the two ways of an
all_reduce against each other: one round, in which every member sends its input to every other, and two, a reduce_scatter and an
all_gather. The size is that of a rank's input."""

import os
import subprocess
import sys
from contextlib import ExitStack, contextmanager

from ranks import Side, interleaved_medians, progress, python_peer, started, two_hosts, with_own_cores
from rows import Row
import rows

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


HOST_SIZES = SIZES[:2]


@contextmanager
def busy_cores():
    """Every core computes meanwhile, as a compiler or a data loader does."""
    hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def against_torch(weft, torch, sizes, where):
    for text, rows, rounds, calls in sizes:
        for case in CASES:
            progress(f"collectives: {case} {text}{where}")
            sides = {"weft": Side(weft, case), "torch": Side(torch, case)}
            medians = interleaved_medians(sides, rows, rounds, calls)
            yield Row("collectives", f"{case} {text}{where}", medians["weft"], medians["torch"], "torch.distributed")


def one_round_against_two(weft, size):
    for text, rows, rounds, calls in ROUND_SIZES:
        progress(f"collectives: all_reduce in one round or two, {text}, {size} ranks")
        sides = {"one": Side(weft, "all_reduce/one"), "two": Side(weft, "all_reduce/two")}
        medians = interleaved_medians(sides, rows, rounds, calls)
        case = f"all_reduce in one round {text}, {size} ranks"
        yield Row("collectives", case, medians["one"], medians["two"], "two rounds")


def idle_and_busy(stack, settings, sizes, where, hosts=None):
    weft = started(stack, [settings.programs / "collectives_main"], 2, hosts)
    torch = started(stack, python_peer(settings.peers / "collectives_rank.py"), 2, hosts)
    yield from against_torch(weft, torch, sizes, where)
    with busy_cores():
        yield from against_torch(weft, torch, sizes, where + ", busy cores")


def on_two_hosts(settings):
    if os.geteuid() != 0 or os.cpu_count() < 2:
        progress("collectives: two hosts are LEFT OUT, which need root and two cores")
        return
    with ExitStack() as stack:
        hosts = with_own_cores(stack.enter_context(two_hosts(settings.scripts / "two_hosts", "none")))
        yield from idle_and_busy(stack, settings, HOST_SIZES, ", two hosts", hosts)


def run(settings):
    program = [settings.programs / "collectives_main"]
    yield from on_two_hosts(settings)
    with ExitStack() as stack:
        yield from idle_and_busy(stack, settings, SIZES, "")
    with ExitStack() as stack:
        weft = started(stack, program, 2)
        yield from one_round_against_two(weft, 2)
    with ExitStack() as stack:
        yield from one_round_against_two(started(stack, program, 4), 4)


def table(all_rows):
    lines = [rows.table(all_rows), ""]
    for row in all_rows:
        if row.peer_name == "torch.distributed" and row.ratio > 1:
            lines.append(f"{row.case}: {rows.number(row.ratio)} of torch.distributed, at most 1.0 is MISSED")
    return "\n".join(lines)
