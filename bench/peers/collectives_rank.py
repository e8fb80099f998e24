"""One rank of torch.distributed's side of the benchmark 'collectives', started by bench/run.py.

Cases: all_gather, all_to_all, reduce_scatter, all_reduce, broadcast, into memory that is there already.
"""

import sys

import torch
import torch.distributed as dist

from serve import serve_as_rank

COLUMNS = 1024


def make_call(case, rows):
    size = dist.get_world_size()
    local = torch.ones(rows, COLUMNS).view(-1)
    if case == "all_gather":
        output = torch.empty(size * local.numel())
        return lambda: dist.all_gather_into_tensor(output, local)
    if case == "all_to_all":
        output = torch.empty_like(local)
        return lambda: dist.all_to_all_single(output, local)
    if case == "reduce_scatter":
        output = torch.empty(local.numel() // size)
        return lambda: dist.reduce_scatter_tensor(output, local)
    if case == "all_reduce":
        output = torch.empty_like(local)
        return lambda: dist.all_reduce(output.copy_(local))
    if case == "broadcast":
        return lambda: dist.broadcast(local, 0)
    raise ValueError(f"unknown case '{case}'")


if __name__ == "__main__":
    sys.exit(serve_as_rank(__doc__, lambda: make_call))
