"""One rank of PyTorch's side of the benchmark 'redistribute', started by bench/run.py as the programs of Weft are.

Cases: `bare S(0)->R`, the collective of torch.distributed that moves the same bytes, into memory that is there already;
`pytorch S(0)->R`, DTensor.redistribute. Also S(0)->S(1), P->S(0), P->R.
"""

import sys

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, init_device_mesh

from serve import serve_as_rank

COLUMNS = 1024
PLACEMENTS = {"S(0)": Shard(0), "S(1)": Shard(1), "R": Replicate(), "P": Partial()}


def local_tensor(source, rows):
    """What one rank holds: a shard of `rows` rows, or a term of the sum."""
    return torch.randn(rows if source == "S(0)" else rows * dist.get_world_size(), COLUMNS)


def bare_call(case, rows):
    local = local_tensor(case.split("->")[0], rows)
    if case == "S(0)->R":
        output = torch.empty(rows * dist.get_world_size(), COLUMNS)
        return lambda: dist.all_gather_into_tensor(output, local)
    if case == "S(0)->S(1)":
        # The columns that go to each rank are contiguous already: the cost of packing is not in the bare time.
        output = torch.empty_like(local)
        return lambda: dist.all_to_all_single(output, local)
    if case == "P->S(0)":
        output = torch.empty(rows, COLUMNS)
        return lambda: dist.reduce_scatter_tensor(output, local)
    if case == "P->R":
        # In place, so that keeping the input takes a copy.
        def reduce_copy():
            copy = local.clone()
            dist.all_reduce(copy)
            return copy

        return reduce_copy
    raise ValueError(f"unknown case '{case}'")


def dtensor_call(case, rows, mesh):
    source, target = case.split("->")
    local = local_tensor(source, rows)
    tensor = DTensor.from_local(local, mesh, [PLACEMENTS[source]], run_check=False)
    placements = [PLACEMENTS[target]]
    return lambda: tensor.redistribute(mesh, placements).to_local()


def calls():
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))

    def make_call(name, rows):
        side, case = name.split(" ")
        return bare_call(case, rows) if side == "bare" else dtensor_call(case, rows, mesh)

    return make_call


if __name__ == "__main__":
    sys.exit(serve_as_rank(__doc__, calls))
