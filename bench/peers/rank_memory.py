"""The memory of a process, and how the ranks of memory rows answer bench/run.py."""

import ctypes
import sys
from pathlib import Path

import torch
import torch.distributed as dist


def memory(name):
    """VmRSS, what this process has now, or VmHWM, the most since reset_peak(); shared memory counts."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1000


def reset_peak():
    ctypes.CDLL(None).malloc_trim(0)  # memory of the model before it was sharded
    Path("/proc/self/clear_refs").write_text("5")


def serve_most_memory(most_memory):
    """The main function of a rank over gloo: answers requests `<any number> <size> <case>` with `most_memory(case, size)`, megabytes."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    print("ready", flush=True)
    for line in sys.stdin:
        _, size, case = line.strip().split(" ", 2)
        print(f"{most_memory(case, int(size)):.1f}", flush=True)
    dist.destroy_process_group()
