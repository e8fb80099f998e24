"""One rank of the memory rows of the benchmark 'checkpoint', started by bench/run.py for one case: answers a request
`<any number> <megabytes> <case>` with the most megabytes that it had while loading on top of those before it had tensors. The cases are
`load`, as it was saved, `turn`, rows to columns, `convert`, to another dtype, and `pretrained`, a model on meta from safetensors files."""

import tempfile

import torch
import torch.distributed as dist
from rank_memory import memory, reset_peak, serve_most_memory
from torch import nn

import weft

SIZE = 2048  # 16 MB a tensor


def columns_of(mesh, dim, count, dtype=torch.float32):
    made = {}
    for i in range(count):
        made[f"{i}.weight"] = weft.zeros(SIZE, SIZE, device_mesh=mesh, placements=[weft.Shard(dim)], dtype=dtype)
    return made


def pretrained_call(mesh, folder, count):
    from safetensors.torch import save_file

    if dist.get_rank() == 0:
        save_file({f"{i}.weight": torch.ones(SIZE, SIZE) for i in range(count)}, f"{folder}/model.safetensors")
    dist.barrier()

    def call():
        with torch.device("meta"):
            model = nn.Sequential(*[nn.Linear(SIZE, SIZE, bias=False) for _ in range(count)])
        weft.parallelize_module(model, mesh, {str(i): weft.ColwiseParallel() for i in range(count)})
        weft.load_pretrained(model, folder)
        return model

    return call


def load_call(mesh, folder, count, case):
    weft.save(columns_of(mesh, 0, count), folder)
    dim, dtype = (1 if case == "turn" else 0), (torch.float64 if case == "convert" else torch.float32)

    def call():
        state = columns_of(mesh, dim, count, dtype)
        weft.load(state, folder)
        return state

    return call


def new_folder():
    names = [tempfile.mkdtemp(prefix="weft_bench_") if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(names)
    return names[0]


def most_memory(case, megabytes):
    mesh = weft.init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("tp",))

    def make(count):
        folder = new_folder()
        return pretrained_call(mesh, folder, count) if case == "pretrained" else load_call(mesh, folder, count, case)

    make(2)()  # what the first use of anything takes is not the load's
    call = make(megabytes // 16)
    reset_peak()
    before = memory("VmRSS")
    loaded = call()
    most = memory("VmHWM") - before
    del loaded
    return most


if __name__ == "__main__":
    serve_most_memory(most_memory)
