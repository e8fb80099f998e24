"""Programs that measure with Google Benchmark."""

import json
import subprocess


def cpu_microseconds(program, seconds_per_case):
    """The CPU time of every case of a program; CPU time, since other work on the machine does not count in it."""
    command = [str(program), "--benchmark_format=json", f"--benchmark_min_time={seconds_per_case}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{program} ended with status {done.returncode}: {done.stderr.strip()}")
    scale = {"ns": 1e-3, "us": 1, "ms": 1e3}
    cases = json.loads(done.stdout)["benchmarks"]
    return {case["name"]: case["cpu_time"] * scale[case["time_unit"]] for case in cases}
