"""The protocol of bench/serve.h for peers in Python: requests on stdin, microseconds of each call on stdout."""

import sys
import time


def serve(make_call, barrier, clock=time.perf_counter):
    """Answers requests `<calls> <size> <case>` until stdin ends; `make_call(case, size)` gives what is timed."""
    made = {}
    print("ready", flush=True)
    for line in sys.stdin:
        calls, size, case = line.strip().split(" ", 2)
        if (case, size) not in made:
            made[case, size] = make_call(case, int(size))
        call = made[case, size]
        times = []
        # The first call is not timed.
        for _ in range(int(calls) + 1):
            barrier()
            start = clock()
            result = call()
            times.append((clock() - start) * 1e6)
            # As in C++, what a call gives is let go of after the clock has stopped.
            del result
        print(*(f"{t:.2f}" for t in times[1:]), flush=True)


def serve_as_rank(doc, maker):
    """The main function of a rank over gloo: `maker()` gives make_call once the ranks have met."""
    if len(sys.argv) > 1:
        print(doc)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    # Not above: a peer without torch serves too.
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    serve(maker(), dist.barrier)
    dist.destroy_process_group()
    return 0
