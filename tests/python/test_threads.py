"""Two threads of every rank, each with a mesh of its own."""

import gc
import threading

import pytest
import torch
import weft
from weft import Partial, Replicate, Shard


def run_threads(*functions):
    """Runs the functions at the same time; raises the first error."""
    errors = []

    def guarded(function):
        try:
            function()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def communicate_often(mesh, weight, rounds=100):
    """Reductions, gathers and redistributions with values that are known."""
    rank, size = mesh.get_rank(), mesh.size()
    whole = torch.arange(24.0).reshape(6, 4) * weight
    for i in range(rounds):
        terms = weft.DTensor.from_local(torch.full((3,), weight * (rank + 1.0)), mesh, [Partial()])
        assert terms.full_tensor().tolist() == [weight * size * (size + 1) / 2] * 3
        x = weft.distribute_tensor(whole + i, mesh, [Shard(0)])
        moved = x.redistribute(placements=[Shard(1)])
        y = (moved * 2).redistribute(placements=[Replicate()])
        assert torch.equal(y.to_local(), (whole + i) * 2)
        assert torch.equal(x.full_tensor(), whole + i)


def test_two_threads_of_every_rank_use_two_meshes_over_the_same_ranks():
    def rank_program(rank):
        meshes = [weft.init_device_mesh("cpu", (2,), mesh_dim_names=(name,)) for name in ("dp", "tp")]
        run_threads(lambda: communicate_often(meshes[0], 12.0), lambda: communicate_often(meshes[1], 24.0))

    weft.run_on_ranks(2, rank_program)


def test_a_mesh_and_its_parts_are_independent():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
        flat = mesh._flatten("all")
        run_threads(lambda: communicate_often(mesh["tp"], 12.0), lambda: communicate_often(flat, 24.0))

    weft.run_on_ranks(2, rank_program)


def test_meshes_that_are_gone_leave_nothing_behind():
    def rank_program(rank):
        for i in range(100):
            mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=(f"d{i}",))
            x = weft.distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
            assert (x + x).full_tensor().tolist() == [0.0, 2.0, 4.0, 6.0]
        del mesh, x
        gc.collect()
        return weft._C.current_world().group_count

    # Caches may keep a few for the case that their meshes come back.
    assert max(weft.run_on_ranks(2, rank_program)) <= 32


def test_two_threads_on_one_mesh_are_told_so():
    both_fail = []

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))

        def use_it():
            try:
                while True:
                    weft.zeros(4, device_mesh=mesh, placements=[Shard(0)]).full_tensor()
            except torch.distributed.DistBackendError as error:
                both_fail.append(str(error))
                raise

        run_threads(use_it, use_it)

    with pytest.raises(torch.distributed.DistBackendError):
        weft.run_on_ranks(2, rank_program, timeout=20)
    assert any("one thread at a time may use group tp (ranks 0,1)" in text for text in both_fail)
