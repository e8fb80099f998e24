"""The protocol of bench/serve.h for peers in Python: requests on stdin, microseconds of each call on stdout."""

import sys
import time


def serve(make_call, barrier):
    """Answers requests `<calls> <rows> <case>` until stdin ends; `make_call(case, rows)` gives what is timed."""
    made = {}
    print("ready", flush=True)
    for line in sys.stdin:
        calls, rows, case = line.strip().split(" ", 2)
        if (case, rows) not in made:
            made[case, rows] = make_call(case, int(rows))
        call = made[case, rows]
        times = []
        # The first call is not timed.
        for _ in range(int(calls) + 1):
            barrier()
            start = time.perf_counter()
            result = call()
            times.append((time.perf_counter() - start) * 1e6)
            # As in C++, what a call gives is let go of after the clock has stopped.
            del result
        print(*(f"{t:.2f}" for t in times[1:]), flush=True)
