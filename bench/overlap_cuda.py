"""Two ranks on one GPU: Weft's fused operators against PyTorch's, in one run.

Started by bench/overlap.py where there is a CUDA device, or by hand:

    TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES=1 torchrun --nproc-per-node 2 bench/overlap_cuda.py

The ranks run at once only under MPS (nvidia-cuda-mps-control -d); without it they take turns, and nothing overlaps.
"""

import argparse
import json
import statistics

import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory  # noqa: F401  registers the operators

import weft


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=8192, help="of the gathered tensor")
    parser.add_argument("--inner", type=int, default=8192)
    parser.add_argument("--columns", type=int, default=4096)
    parser.add_argument("--chunks", type=int, default=1, help="of a shard, in Weft")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--calls", type=int, default=10, help="per measurement")
    return parser.parse_args()


def milliseconds(call, calls):
    """Of one call, on the device, with all ranks beginning together."""
    torch.cuda.synchronize()
    dist.barrier()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / calls


def medians(cases, repeats, calls):
    for call in cases.values():
        milliseconds(call, 3)
    times = {name: [] for name in cases}
    for _ in range(repeats):
        for name, call in cases.items():
            times[name].append(milliseconds(call, calls))
    return {name: statistics.median(values) for name, values in times.items()}


def check(name, ours, theirs):
    error = (ours.float() - theirs.float()).norm() / theirs.float().norm()
    if not error < 1e-2:
        raise SystemExit(f"{name}: the results differ by {error:.2e}")


def main():
    options = arguments()
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(0)
    torch.manual_seed(rank)
    group = dist.group.WORLD.group_name
    mesh = weft.init_device_mesh("cuda", (size,), mesh_dim_names=("tp",))

    bf16 = {"device": "cuda", "dtype": torch.bfloat16}
    shard = torch.randn(options.rows // size, options.inner, **bf16)
    full = torch.randn(options.rows, options.inner, **bf16)
    other = torch.randn(options.inner, options.columns, **bf16)

    gather = {
        "matmul": lambda: full @ other,
        "pytorch": lambda: torch.ops.symm_mem.fused_all_gather_matmul(shard, [other], 0, group, return_A=False)[1][0],
        "weft": lambda: weft.all_gather_matmul(shard, [other], mesh, chunks=options.chunks)[0],
    }
    scatter = {
        "matmul": gather["matmul"],
        "pytorch": lambda: torch.ops.symm_mem.fused_matmul_reduce_scatter(full, other, "sum", 0, group),
        "weft": lambda: weft.matmul_reduce_scatter(full, other, mesh, chunks=options.chunks),
    }
    for name, cases in (("all_gather_matmul", gather), ("matmul_reduce_scatter", scatter)):
        check(name, cases["weft"](), cases["pytorch"]())
        times = medians(cases, options.repeats, options.calls)
        if rank == 0:
            print(json.dumps({"case": name, **times, "ratio": times["weft"] / times["pytorch"]}), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
