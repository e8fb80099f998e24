"""One rank of the benchmark 'checkpoint', started by bench/run.py; the size is that of all tensors, in megabytes.

Cases are a side and what is timed: `weft save`, `pytorch save` (torch.distributed.checkpoint), `raw save` (a file with fsync per rank);
`load`, as it was saved, and `turn`, rows to columns, of `weft`, `unverified` (weft.load without checksums), `pytorch` and `raw` (the same
bytes into the same memory); `async`, until it returns, of `weft`, `pytorch` and `raw` (a copy of the shards); `slices` and `columns` of a
safetensors file, of `weft` and `raw` (safetensors' own slices); `narrow`, many short rows: bfloat16 matrices of 1,024 columns, saved as rows
and loaded as columns, of `weft`, `unverified` and `raw`. Everything is in the page cache.
"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist

from serve import serve_as_rank

COLUMNS = 4096
ROWS = 4096  # 64 MB a tensor
NARROW = 1024


class Files:
    """What the cases read, written once for all ranks."""

    def __init__(self, megabytes):
        from torch.distributed.device_mesh import init_device_mesh

        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.count = max(1, megabytes // 64)
        names = [tempfile.mkdtemp(prefix="weft_bench_") if self.rank == 0 else None]
        dist.broadcast_object_list(names)
        self.folder = names[0]
        self.torch_mesh = init_device_mesh("cpu", (self.size,))
        generator = torch.Generator().manual_seed(self.rank)
        self.shards = {
            f"layers.{i}.weight": torch.randn(ROWS // self.size, COLUMNS, generator=generator) for i in range(self.count)
        }

    def path(self, name):
        return f"{self.folder}/{name}"

    def of_weft(self, dim, shards=None):
        import weft

        mesh = weft.init_device_mesh("cpu", (self.size,), mesh_dim_names=("tp",))
        if shards is None:
            return {name: weft.zeros(ROWS, COLUMNS, device_mesh=mesh, placements=[weft.Shard(dim)]) for name in self.shards}
        return {name: weft.from_local(local, mesh, [weft.Shard(dim)]) for name, local in shards.items()}

    def narrow(self, dim):
        """Matrices of 8 MB, as many as the others have bytes."""
        import weft

        mesh = weft.init_device_mesh("cpu", (self.size,), mesh_dim_names=("tp",))
        made = {}
        for i in range(8 * self.count):
            made[f"narrow.{i}"] = weft.zeros(
                ROWS, NARROW, device_mesh=mesh, placements=[weft.Shard(dim)], dtype=torch.bfloat16
            )
        return made

    def of_torch(self, dim, shards=None):
        from torch.distributed.tensor import DTensor, Shard, zeros

        if shards is None:
            return {name: zeros((ROWS, COLUMNS), device_mesh=self.torch_mesh, placements=[Shard(dim)]) for name in self.shards}
        return {name: DTensor.from_local(local, self.torch_mesh, [Shard(dim)], run_check=False) for name, local in shards.items()}


def weft_call(files, case, verify=True):
    import weft

    if case == "narrow":
        weft.save(files.narrow(0), files.path("narrow"))
        narrow = files.narrow(1)
        return lambda: weft.load(narrow, files.path("narrow"), verify=verify)
    if case in ("slices", "columns"):
        path = files.path("hf.safetensors")
        write_safetensors(files, path)
        state = files.of_weft(0 if case == "slices" else 1)
        return lambda: weft._C.stored_pretrained(path).load(state)
    state = files.of_weft(0, files.shards)
    if case == "save":
        return lambda: weft.save(state, files.path("weft"))
    if case == "async":
        saver = weft.AsyncSaver()
        number = iter(range(10**9))

        def call():
            saver.save(state, files.path(f"async_{next(number) % 2}"))
            return Waiting(saver)

        return call
    weft.save(state, files.path("weft_source"))
    other = files.of_weft(0 if case == "load" else 1)
    return lambda: weft.load(other, files.path("weft_source"), verify=verify)


class Waiting:
    """Waits when it is let go of, which is not timed."""

    def __init__(self, saver):
        self.saver = saver

    def __del__(self):
        self.saver.wait()


def pytorch_call(files, case):
    import torch.distributed.checkpoint as dcp

    state = files.of_torch(0, files.shards)
    if case == "save":
        return lambda: dcp.save(state, checkpoint_id=files.path("torch"))
    if case == "async":

        class Future:
            def __init__(self, future):
                self.future = future

            def __del__(self):
                self.future.result()

        return lambda: Future(dcp.async_save(state, checkpoint_id=files.path("torch_async")))
    dcp.save(state, checkpoint_id=files.path("torch_source"))
    other = files.of_torch(0 if case == "load" else 1)
    return lambda: dcp.load(other, checkpoint_id=files.path("torch_source"))


def write_safetensors(files, path):
    from safetensors.torch import save_file

    if files.rank == 0 and not os.path.exists(path):
        save_file({name: torch.randn(ROWS, COLUMNS) for name in files.shards}, path)
    dist.barrier()


def raw_call(files, case):
    views = [memoryview(local.numpy()).cast("B") for local in files.shards.values()]
    path = files.path(f"raw_{files.rank}")

    def write():
        with open(path, "wb", buffering=0) as file:
            for view in views:
                while view:
                    view = view[file.write(view) :]
            os.fsync(file.fileno())

    if case == "save":
        return write
    if case == "async":
        copies = {name: torch.empty_like(local) for name, local in files.shards.items()}
        return lambda: [copies[name].copy_(local) for name, local in files.shards.items()]
    if case in ("slices", "columns"):
        from safetensors import safe_open

        source = files.path("hf.safetensors")
        write_safetensors(files, source)
        begin, end = files.rank * ROWS // files.size, (files.rank + 1) * ROWS // files.size

        def read_slices():
            with safe_open(source, "pt") as file:
                for name in files.shards:
                    part = file.get_slice(name)
                    (part[begin:end] if case == "slices" else part[:, begin:end]).clone()

        return read_slices
    write()
    targets = [memoryview(torch.zeros_like(local).numpy()).cast("B") for local in files.shards.values()]

    def read():
        with open(path, "rb", buffering=0) as file:
            for view in targets:
                while view:
                    view = view[file.readinto(view) :]

    return read


def calls():
    made = {}

    def make_call(name, megabytes):
        files = made.setdefault(megabytes, None) or Files(megabytes)
        made[megabytes] = files
        side, case = name.split(" ")
        if side in ("weft", "unverified"):
            return weft_call(files, case, verify=side == "weft")
        return pytorch_call(files, case) if side == "pytorch" else raw_call(files, case)

    return make_call


if __name__ == "__main__":
    sys.exit(serve_as_rank(__doc__, calls))
