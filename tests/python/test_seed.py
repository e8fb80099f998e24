"""torch.manual_seed seeds distributed tensors only where all ranks give the same seed."""

import pytest
import torch
import torch.distributed as dist
import weft
from torch.testing._internal.distributed.fake_pg import FakeStore
from weft import Replicate, Shard


def on_ranks(program, ranks=2):
    def run(rank):
        return program(rank, weft.init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",)))

    return weft.run_on_ranks(ranks, run)


def drawn(mesh, **options):
    return weft.rand(4, device_mesh=mesh, placements=[Replicate()], **options).to_local()


def dropped(mesh):
    return torch.nn.functional.dropout(weft.ones(64, device_mesh=mesh, placements=[Shard(0)]))


def chosen(mesh):
    return torch.multinomial(weft.ones(8, device_mesh=mesh), 4)


@pytest.mark.parametrize("draw", [drawn, dropped, chosen])
def test_seeds_that_differ_between_ranks_raise_on_every_rank_in_every_draw(draw):
    def program(rank, mesh):
        torch.manual_seed(10 + rank)
        for _ in range(2):
            with pytest.raises(ValueError, match=r"(?s)same seed on every rank, but rank 0 was seeded with 10 and rank 1 with 11.*weft\.manual_seed"):
                draw(mesh)

    on_ranks(program)


def test_other_ways_to_seed_are_not_compared():
    def program(rank, mesh):
        with weft.comm_debug() as comm:
            drawn(mesh)
            torch.manual_seed(rank)
            drawn(mesh, generator=torch.Generator().manual_seed(3))
            weft.manual_seed(7)
            result = drawn(mesh)
            torch.default_generator.manual_seed(rank)
            drawn(mesh)
        assert comm.calls == 0
        return result

    first, second = on_ranks(program)
    assert torch.equal(first, second)


def test_seeds_are_compared_once_per_seeding_and_mesh():
    def program(rank, mesh):
        other = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
        for seed in (5, 5, 6):
            torch.manual_seed(seed)
            with weft.comm_debug() as comm:
                state = weft.random_state()
                drawn(mesh), drawn(mesh), dropped(mesh)
                weft.set_random_state(state)
                drawn(mesh)
            assert comm.by_collective() == {"compare_seeds": (1, 8)}
            with weft.comm_debug() as comm:
                drawn(other), drawn(other)
            assert comm.by_collective() == {"compare_seeds": (1, 8)}

    on_ranks(program)


def test_a_restored_state_is_compared_like_the_seed():
    def program(rank, mesh):
        torch.manual_seed(20 + rank)
        state = weft.random_state()
        weft.set_random_state((9, 0))
        drawn(mesh)
        weft.set_random_state(state)
        with pytest.raises(ValueError, match="rank 0 was seeded with 20 and rank 1 with 21"):
            drawn(mesh)

    on_ranks(program)


def test_ranks_outside_a_mesh_and_a_mesh_of_one_compare_nothing():
    def program(rank):
        torch.manual_seed(rank)
        one = weft.DeviceMesh("cpu", [0], mesh_dim_names=("tp",))
        drawn(one) if rank == 0 else None
        pair = weft.DeviceMesh("cpu", [0, 1], mesh_dim_names=("tp",))
        if rank == 2:
            drawn(pair)
        else:
            with pytest.raises(ValueError, match="rank 0 was seeded with 0 and rank 1 with 1"):
                drawn(pair)

    weft.run_on_ranks(3, program)


def test_one_rank_that_is_seeded_alone_raises_with_the_next_collective():
    def program(rank, mesh):
        if rank == 0:
            torch.manual_seed(4)
        with pytest.raises(RuntimeError, match="compare_seeds"):
            drawn(mesh)
            weft.from_local(torch.ones(2), mesh, [Shard(0)]).full_tensor()

    on_ranks(program)


@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_ranks_of_torchs_fake_backend_do_not_exist_and_compare_nothing(shape):
    dist.init_process_group("fake", rank=0, world_size=4, store=FakeStore())
    try:
        mesh = weft.init_device_mesh("cpu", shape)
        torch.manual_seed(3)
        assert weft.rand(4, device_mesh=mesh).to_local().shape == (4,)
    finally:
        dist.destroy_process_group()
