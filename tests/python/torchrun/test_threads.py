"""Two threads of two processes, each with a mesh of its own."""

import threading

import torch
import weft
from weft import Partial, Replicate, Shard


def communicate_often(mesh, weight, wrong, rounds=100):
    rank = mesh.get_rank()
    whole = torch.arange(24.0).reshape(6, 4) * weight
    for i in range(rounds):
        terms = weft.DTensor.from_local(torch.full((3,), weight * (rank + 1.0)), mesh, [Partial()])
        if terms.full_tensor().tolist() != [weight * 3] * 3:
            wrong.append((weight, i, "all_reduce"))
        x = weft.distribute_tensor(whole + i, mesh, [Shard(0)])
        y = (x.redistribute(placements=[Shard(1)]) * 2).redistribute(placements=[Replicate()])
        if not torch.equal(y.to_local(), (whole + i) * 2):
            wrong.append((weight, i, "redistribute"))
        if not torch.equal(x.full_tensor(), whole + i):
            wrong.append((weight, i, "all_gather"))
    wrong.append("done")


def test_two_threads_of_every_rank_use_two_meshes_over_the_same_ranks():
    meshes = [weft.init_device_mesh("cpu", (2,), mesh_dim_names=(name,)) for name in ("first", "second")]
    wrong = []
    jobs = list(zip(meshes, (12.0, 24.0)))
    if meshes[0].get_rank() == 1:
        jobs.reverse()  # the threads of the two ranks make their groups in different orders
    threads = [threading.Thread(target=communicate_often, args=(mesh, weight, wrong)) for mesh, weight in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == ["done", "done"]


def test_equal_meshes_share_their_groups():
    import torch.distributed as dist

    def groups():
        return len(dist.distributed_c10d._world.pg_map)

    weft.init_device_mesh("cpu", (2, 1), mesh_dim_names=("again", "and_again"))
    before = groups()
    for _ in range(3):
        mesh = weft.init_device_mesh("cpu", (2, 1), mesh_dim_names=("again", "and_again"))
        assert mesh.to_torch() is mesh.to_torch()
    assert groups() == before
