"""torch.manual_seed on two processes: seeds that differ between ranks raise in the first draw of a distributed tensor."""

import pytest
import torch
import torch.distributed as dist
import weft
from weft import Replicate, Shard


def drawn(mesh):
    return weft.rand(4, device_mesh=mesh, placements=[Replicate()]).to_local()


def test_equal_seeds_give_equal_numbers(mesh):
    torch.manual_seed(5)
    with weft.comm_debug() as comm:
        own, _ = drawn(mesh), drawn(mesh)
    assert comm.by_collective() == {"compare_seeds": (1, 8)}
    both = [torch.empty(4), torch.empty(4)]
    dist.all_gather(both, own)
    assert torch.equal(both[0], both[1])


def test_seeds_that_differ_raise_on_both_ranks_until_one_seed_is_given(mesh):
    torch.manual_seed(dist.get_rank())
    dropout = torch.nn.Dropout()
    x = weft.ones(64, device_mesh=mesh, placements=[Shard(0)])
    for draw in (lambda: drawn(mesh), lambda: dropout(x)):
        with pytest.raises(ValueError, match="rank 0 was seeded with 0 and rank 1 with 1"):
            draw()
    weft.manual_seed(3)
    own = drawn(mesh)
    both = [torch.empty(4), torch.empty(4)]
    dist.all_gather(both, own)
    assert torch.equal(both[0], both[1])
