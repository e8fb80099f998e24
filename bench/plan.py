"""Planning a redistribution on a 3-D mesh, nothing cached, of a tensor with four dims. On 8 and on 4,096 ranks, against
PyTorch's planner on a fake process group of as many ranks: its default one, which plans one mesh dim at a time, and
its graph search, which like Weft's looks for the cheapest way."""

import statistics
from contextlib import ExitStack

from google import cpu_microseconds
from ranks import progress, python_peer, started
from rows import Row

ROUNDS = 3
SIDES = (2, 16)
PEERS = {"pytorch": "greedy", "pytorch graph search": "graph"}


def run(settings):
    weft, peers = {}, {}
    with ExitStack() as stack:
        progress("plan: PyTorch's fake process groups")
        script = settings.peers / "plan_fake.py"
        planners = {side: started(stack, python_peer(script, str(side)), 1) for side in SIDES}
        for round_number in range(ROUNDS):
            progress(f"plan: round {round_number + 1} of {ROUNDS}")
            for name, time in cpu_microseconds(settings.programs / "plan_bench", 0.1).items():
                weft.setdefault(name, []).append(time)
            for name in weft:
                pair, side = name.split(";")
                for peer in PEERS.values():
                    calls = 40 if peer == "greedy" else 2
                    times = planners[int(side)].time(f"{peer} {pair}", 0, calls)
                    peers.setdefault((name, peer), []).extend(times)
    for name, times in weft.items():
        pair, side = name.split(";")
        case = f"{pair.replace('P(sum)', 'P')} on {int(side) ** 3:,} ranks"
        for peer_name, peer in PEERS.items():
            yield Row("plan", case, statistics.median(times), statistics.median(peers[name, peer]), peer_name)
