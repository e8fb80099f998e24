"""One rank of the memory rows of the benchmark 'fully_sharded', started by bench/run.py for one mode: answers a request
`<any number> <dim> <mode>` with the most megabytes that it had in a step on top of those before there was a model."""

import ctypes
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from fully_sharded_rank import training

STEPS = 4


def memory(name):
    """VmRSS, what this process has now, or VmHWM, the most since reset_peak(); shared memory counts."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1000


def reset_peak():
    ctypes.CDLL(None).malloc_trim(0)  # memory of the model before it was sharded
    Path("/proc/self/clear_refs").write_text("5")


def most_memory(mode, dim):
    # What the first use of autograd, kernels and collectives takes is not the model's.
    training(mode, 64).step()
    reset_peak()
    before = memory("VmRSS")
    made = training(mode, dim)
    made.step()
    reset_peak()
    for _ in range(STEPS):
        made.step()
    return memory("VmHWM") - before


if __name__ == "__main__":
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    print("ready", flush=True)
    for line in sys.stdin:
        _, dim, mode = line.strip().split(" ", 2)
        print(f"{most_memory(mode, int(dim)):.1f}", flush=True)
    dist.destroy_process_group()
