"""One rank of torch.distributed's side of the benchmark 'collectives', started by bench/run.py.

Cases: all_gather, all_to_all, reduce_scatter, all_reduce, broadcast, into memory that is there already.
"""

import sys

import torch
import torch.distributed as dist

from serve import serve

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


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    serve(make_call, dist.barrier)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
