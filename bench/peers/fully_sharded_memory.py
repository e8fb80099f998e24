"""One rank of the memory rows of the benchmark 'fully_sharded', started by bench/run.py for one mode: answers a request
`<any number> <dim> <mode>` with the most megabytes that it had in a step on top of those before there was a model."""

from fully_sharded_rank import training
from rank_memory import memory, reset_peak, serve_most_memory

STEPS = 4


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
    serve_most_memory(most_memory)
