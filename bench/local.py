"""A redistribution that needs no communication and has been planned before, of a 16x16 tensor on rank 3 of a 2x2 mesh,
against DTensor.redistribute on a fake process group. What is left is the overhead of a call."""

import statistics
from contextlib import ExitStack

from google import cpu_microseconds
from ranks import progress, python_peer, started
from rows import Row

ROUNDS = 5


def run(settings):
    weft, peers = {}, {}
    with ExitStack() as stack:
        torch = started(stack, python_peer(settings.peers / "local_fake.py"), 1)
        for round_number in range(ROUNDS):
            progress(f"local: round {round_number + 1} of {ROUNDS}")
            for name, time in cpu_microseconds(settings.programs / "local_bench", 0.1).items():
                weft.setdefault(name, []).append(time)
            for name in weft:
                peers.setdefault(name, []).extend(torch.time(name, 0, 300))
    for name, times in weft.items():
        case = name.replace("P(sum)", "P")
        yield Row("local", case, statistics.median(times), statistics.median(peers[name]), "pytorch")
