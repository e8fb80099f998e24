"""What programs call: the same names on one device (Plain) and on a rank of a mesh (Distributed)."""

import torch
import weft
from differential import modules
from weft import Partial, Replicate, Shard, StridedShard


def global_value(number, shape, dtype):
    """Quarters from -2 to 2: sums of a few are exact, and equal elements occur."""
    generator = torch.Generator().manual_seed(number)
    return (torch.randint(-8, 9, shape, generator=generator) / 4).to(dtype)


def term(value, reduce_op, index, count, seed):
    """What member `index` of `count` holds of a partial value, so that their reduction is the value."""
    generator = torch.Generator().manual_seed(seed)
    offsets = torch.randint(0, 5, (count, *value.shape), generator=generator)
    offsets = offsets / 4 if value.is_floating_point() else offsets
    offsets = offsets.to(value.dtype)
    if reduce_op == "sum":
        return value - offsets[1:].sum(0) if index == 0 else offsets[index]
    if reduce_op == "avg":
        return value - offsets[1:].sum(0) if index == 0 else value + offsets[index]
    owner = torch.randint(0, count, value.shape, generator=generator)
    offset = torch.where(owner == index, torch.zeros_like(value), offsets[index])
    return value - offset if reduce_op == "max" else value + offset


class Side:
    """Holds what a program has read. `step` is the number of the statement that runs."""

    def __init__(self):
        self.step = 0
        self.reads = []  # (step, value, metadata)

    def namespace(self):
        return {
            "torch": torch, "F": torch.nn.functional, "S": Shard, "SS": StridedShard, "R": Replicate(), "P": Partial,
            "tensor": self.tensor, "indices": self.indices, "module": self.module, "checkpoint": checkpoint,
            "read": self.read, "read_state": self.read_state, "local": self.local, "redistribute": self.redistribute,
        }  # fmt: skip

    def read(self, value):
        """Keeps the value as one device would hold it, to be compared."""
        if isinstance(value, torch.Tensor):
            found = metadata(value)
            with torch.no_grad():
                value = None if value.device.type == "meta" else self.gathered(value).clone()
        else:
            found = type(value)
        self.reads.append((self.step, value, found))

    def read_state(self, optimizer):
        for state in optimizer.state.values():
            for key in sorted(state):
                self.read(state[key])


class Plain(Side):
    def tensor(self, number, shape, placements, dtype=torch.float64, requires_grad=False, device="cpu"):
        return global_value(number, shape, dtype).to(device).requires_grad_(requires_grad)

    def local(self, value):
        return value

    def indices(self, values):
        return torch.tensor(values)

    def redistribute(self, value, placements):
        return value * 1

    def gathered(self, value):
        return value.detach()

    def module(self, name, plan, *sizes):
        return modules.make(name, *sizes)


class Distributed(Side):
    def __init__(self, mesh):
        super().__init__()
        self.mesh = mesh

    def tensor(self, number, shape, placements, dtype=torch.float64, requires_grad=False, device="cpu"):
        value = global_value(number, shape, dtype)
        stored = []  # the placements with partial values taken for replicated ones
        for mesh_dim, placement in enumerate(placements):
            if placement.is_partial():
                index, count = self.mesh.get_local_rank(mesh_dim), self.mesh.size(mesh_dim)
                value = term(value, placement.reduce_op, index, count, 1000 * number + mesh_dim)
            stored.append(Replicate() if placement.is_partial() else placement)
        shards = weft.distribute_tensor(value.to(device), self.mesh, stored, src_data_rank=None)
        made = weft.from_local(shards.to_local().clone(), self.mesh, placements, shape=value.shape)
        return made.requires_grad_(requires_grad)

    def local(self, value):
        return value.to_local()

    def indices(self, values):
        return weft.distribute_tensor(torch.tensor(values), self.mesh, [Replicate()] * self.mesh.ndim, src_data_rank=None)

    def redistribute(self, value, placements):
        return value.redistribute(placements=placements) * 1

    def gathered(self, value):
        return value.full_tensor() if weft.is_dtensor(value) else value.detach()

    def module(self, name, plan, *sizes):
        made = modules.make(name, *sizes)
        return weft.parallelize_module(made, self.mesh, modules.PLANS[plan], mesh_dim=self.mesh.mesh_dim_names[-1])


def checkpoint(function, *arguments):
    return torch.utils.checkpoint.checkpoint(function, *arguments, use_reentrant=False)


def metadata(value):
    """What must be the same on both sides without looking at the elements."""
    if not isinstance(value, torch.Tensor):
        return type(value).__name__
    return tuple(value.shape), value.dtype, value.device.type, value.requires_grad, value.is_leaf
