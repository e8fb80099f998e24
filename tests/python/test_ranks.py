"""run_on_ranks, meshes and errors."""

import copy
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
import weft
from weft import Partial, Placement, Replicate, Shard, StridedShard


def test_results_come_in_the_order_of_the_ranks():
    assert weft.run_on_ranks(4, lambda rank: rank * rank) == [0, 1, 4, 9]
    assert weft.run_on_ranks(1, lambda rank: None) == [None]


def test_the_first_error_is_raised_with_its_rank_and_releases_the_others():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (3,))
        if rank == 2:
            raise KeyError("lost")
        weft.zeros(3, device_mesh=mesh, placements=[Shard(0)]).full_tensor()

    with pytest.raises(KeyError, match="lost") as raised:
        weft.run_on_ranks(3, rank_program)
    assert raised.value.__notes__ == ["on rank 2"]
    assert raised.traceback[-1].name == "rank_program"


def test_ranks_that_disagree_are_told_so():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = weft.zeros(4, device_mesh=mesh, placements=[Shard(0)])
        x.full_tensor() if rank == 0 else x.redistribute(placements=[Shard(0)])

    with pytest.raises(torch.distributed.DistBackendError, match="rank 1 does not participate: it has returned"):
        weft.run_on_ranks(2, rank_program, timeout=10)


def test_a_timeout_is_an_error():
    released = threading.Event()

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = weft.zeros(4, device_mesh=mesh, placements=[Shard(0)])
        if rank == 0:
            try:
                x.full_tensor()
            finally:
                released.set()
        else:
            released.wait(20)

    begin = time.monotonic()
    with pytest.raises(torch.distributed.DistBackendError, match="not every rank arrived; missing: 1"):
        weft.run_on_ranks(2, rank_program, timeout=0.5)
    assert time.monotonic() - begin < 10


def test_what_holds_for_the_caller_holds_for_the_ranks():
    def rank_program(rank):
        x = weft.ones(4, device_mesh=weft.init_device_mesh("cpu", (2,)), requires_grad=True)
        return (x * 2).requires_grad

    with torch.no_grad():
        assert weft.run_on_ranks(2, rank_program) == [False, False]
    assert weft.run_on_ranks(2, rank_program) == [True, True]


def test_ranks_have_random_numbers_of_their_own():
    def rank_program(rank):
        weft.manual_seed(3)
        return weft.rand(4, device_mesh=weft.init_device_mesh("cpu", (2,)), placements=[Shard(0)]).full_tensor()

    one, other = weft.run_on_ranks(2, rank_program)
    assert torch.equal(one, other)


def test_an_interrupt_ends_the_ranks():
    program = """
import threading, time, weft
def rank_program(rank):
    if rank == 0:
        print("running", flush=True)
    while True:
        time.sleep(0.01)
try:
    weft.run_on_ranks(2, rank_program)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "running\n"
    os.kill(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=20)
    assert output == "interrupted\n" and process.returncode == 0


def test_a_size_that_is_none_is_an_error():
    with pytest.raises(ValueError, match=r"\[run_on_ranks\] at least one rank is required, but got 0"):
        weft.run_on_ranks(0, lambda rank: None)


def test_without_a_launcher_a_process_is_one_rank():
    mesh = weft.init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    assert mesh.size() == 1 and mesh.get_rank() == 0 and mesh.get_coordinate() == (0, 0)
    with pytest.raises(ValueError, match="was made without"):
        mesh.get_group("tp")
    with pytest.raises(ValueError, match="Start more ranks or make the mesh smaller"):
        weft.init_device_mesh("cpu", (2,))


def test_a_fake_process_group_is_a_fake_world():
    """One process plans for ranks that do not exist: shapes and layouts are those of rank 5, and nothing arrives."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    torch.distributed.init_process_group("fake", rank=5, world_size=8, store=FakeStore())
    try:
        mesh = weft.init_device_mesh("cpu", (2, 4), mesh_dim_names=("dp", "tp"))
        x = weft.zeros(6, 8, device_mesh=mesh, placements=[Shard(0), Shard(1)], requires_grad=True)
        assert x.to_local().shape == (3, 2) and mesh.get_coordinate() == (1, 1)
        y = (x @ weft.ones(8, 4, device_mesh=mesh, placements=[Replicate(), Shard(0)])).redistribute(placements=[Shard(0), Replicate()])
        y.sum().backward()
        assert y.to_local().shape == (3, 4) and x.grad.placements == (Shard(0), Shard(1))
    finally:
        torch.distributed.destroy_process_group()


def test_a_mesh_is_a_value():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        assert mesh == weft.DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))
        assert hash(mesh) == hash(copy.deepcopy(mesh)) and copy.copy(mesh) == mesh and mesh != "mesh"
        assert mesh["tp", "dp"].shape == (2, 2) and mesh["tp", "dp"] != mesh
        assert mesh["dp"].mesh.tolist() == [rank % 2, rank % 2 + 2]
        assert mesh._flatten().shape == (4,) and mesh._flatten("all").mesh_dim_names == ("all",)
        assert mesh.size("tp") == mesh.size(-1) == 2 and mesh.get_local_rank("dp") == rank // 2
        return repr(mesh), mesh.get_coordinate()

    assert weft.run_on_ranks(4, rank_program)[3] == ("mesh(dp=2,tp=2)", (1, 1))


def test_a_rank_outside_a_mesh_has_no_coordinate():
    def rank_program(rank):
        return weft.DeviceMesh("cpu", [1]).get_coordinate()

    assert weft.run_on_ranks(2, rank_program) == [None, (0,)]


def test_placements_are_values_of_their_classes():
    assert Shard(1) == Shard(dim=1) != Shard(0) and Shard(1) != Replicate() and Partial() == Partial("sum")
    assert len({Shard(0), Shard(0), Replicate(), Partial(), Partial("max")}) == 4
    assert Shard(1).is_shard() and Shard(1).is_shard(1) and not Shard(1).is_shard(0)
    assert Replicate().is_replicate() and Partial().is_partial() and Partial("max").is_partial("max")
    assert all(isinstance(p, Placement) for p in (Shard(0), Replicate(), Partial(), StridedShard(0, split_factor=2)))
    assert Shard(2).dim == 2 and Partial("avg").reduce_op == "avg" and StridedShard(1, split_factor=4).split_factor == 4
    assert [repr(p) for p in (Shard(1), Replicate(), Partial())] == ["Shard(dim=1)", "Replicate()", "Partial(sum)"]
    assert [str(p) for p in (Shard(1), Replicate(), Partial())] == ["S(1)", "R", "P(sum)"]
    assert Shard(0) != "S(0)" and isinstance(Shard(0), Shard) and not isinstance(Shard(0), Replicate)


ERRORS = [
    (ValueError, "expected one of sum avg max min product, but got 'mean'", lambda mesh: Partial("mean")),
    (TypeError, "a tensor is required, but got int", lambda mesh: weft.distribute_tensor(3, mesh)),
    (TypeError, "placements must be a sequence", lambda mesh: weft.zeros(2, device_mesh=mesh, placements=Shard(0))),
    (TypeError, "a placement is required, but got int", lambda mesh: weft.zeros(2, device_mesh=mesh, placements=[0])),
    (TypeError, "a device mesh is required, but got int", lambda mesh: weft.zeros(2, device_mesh=3)),
    (ValueError, "one placement per mesh dim", lambda mesh: weft.zeros(2, device_mesh=mesh, placements=[Shard(0), Shard(0)])),
    (IndexError, "must be in \\[-1, 1\\) for a tensor of 1 dims, but got 3", lambda mesh: weft.zeros(2, device_mesh=mesh, placements=[Shard(3)])),
    (ValueError, "placements are required", lambda mesh: weft.zeros(2, device_mesh=mesh).redistribute()),
    (ValueError, "a mesh dim of mesh\\(d0=1\\) is required, but got 'tp'. Use one of d0", lambda mesh: mesh["tp"]),
    (ValueError, "a mesh dim of mesh\\(d0=1\\) is required, but got 3", lambda mesh: mesh.size(3)),
    (TypeError, "a distributed tensor is required, but got a plain one", lambda mesh: weft.placements(torch.ones(1))),
    (TypeError, "a distributed tensor is required, but got a plain one", lambda mesh: weft.to_local(torch.ones(1))),
    (ValueError, "Write 'cuda'", lambda mesh: weft.init_device_mesh("cuda:0", (1,))),
    (ValueError, "backend_override needs the process groups", lambda mesh: weft.DeviceMesh("cpu", [0], backend_override={0: "gloo"})),
]


@pytest.mark.parametrize("error,text,call", ERRORS, ids=[text[:40] for _, text, _ in ERRORS])
def test_an_error_of_cpp_is_the_fitting_one_without_noise(error, text, call):
    with pytest.raises(error, match=text) as raised:
        call(weft.init_device_mesh("cpu", (1,)))
    assert type(raised.value) is error
    assert "frame #" not in str(raised.value) and "Exception raised from" not in str(raised.value)
