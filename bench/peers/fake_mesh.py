"""What the peers on a fake process group share: the mesh and the placements of a case."""

import torch.distributed as dist
from torch.distributed.tensor import Partial, Replicate, Shard, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore


def fake_mesh(shape, rank, device="cpu"):
    """A mesh as one rank sees it, without the other ranks."""
    size = 1
    for length in shape:
        size *= length
    dist.init_process_group("fake", rank=rank, world_size=size, store=FakeStore())
    return init_device_mesh(device, shape)


def parse_placements(text):
    """`{S(0), R, P(sum)}`"""
    words = [word.strip() for word in text.strip("{}").split(",")]
    known = {"R": Replicate(), "P(sum)": Partial()}
    return tuple(known[word] if word in known else Shard(int(word[2:-1])) for word in words)


def parse_case(text):
    """`{S(0), R}->{R, R}`: the placements before and after."""
    source, target = text.split("->")
    return parse_placements(source), parse_placements(target)
