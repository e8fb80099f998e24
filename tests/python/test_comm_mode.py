"""weft.CommDebugMode where ranks are threads."""

import torch
import weft
from torch import nn
from weft import Partial, Replicate, Shard

functional = torch.ops.c10d_functional


def on_mesh(program, ranks=2):
    return weft.run_on_ranks(ranks, lambda rank: program(weft.init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))))


class Block(nn.Module):
    def __init__(self, mesh):
        super().__init__()
        self.weight = nn.Parameter(weft.ones(8, 8, device_mesh=mesh, placements=[Shard(0)]))

    def forward(self, x):
        return (x @ self.weight).redistribute(placements=[Replicate()])


def test_it_is_pytorchs():
    from torch.distributed.tensor.debug import CommDebugMode

    assert weft.CommDebugMode is CommDebugMode


def test_every_rank_counts_its_own_collectives_by_module_and_pass():
    def program(mesh):
        model = nn.Sequential(Block(mesh), Block(mesh))
        x = weft.distribute_tensor(torch.ones(4, 8), mesh, [Shard(1)]).requires_grad_()
        with weft.CommDebugMode() as mode:
            y = model(x)
        forward = dict(mode.get_comm_counts())
        with mode:
            y.sum().backward()
        return forward, mode

    for forward, mode in on_mesh(program):
        assert forward == {functional.all_reduce: 2}
        assert not mode.comm_module_counts["Global"]["forward"]
        assert sum(mode.comm_module_counts["Global"]["backward"].values()) == mode.get_total_counts() > 0


def test_modules_of_other_ranks_are_not_followed():
    def program(mesh):
        model = Block(mesh)
        x = weft.distribute_tensor(torch.ones(4, 8), mesh, [Shard(1)])
        with weft.CommDebugMode() as mode:
            for _ in range(5):
                model(x)
        assert list(mode.get_sharding_info()) == ["Block.weight"]
        assert mode.get_sharding_info()["Block.weight"] == (Shard(0),)
        assert mode.comm_module_counts["Block"]["forward"] == {functional.all_reduce: 5}
        assert mode.advanced_module_tracker.parent_dict == {"Global": ["Block"] * 5}

    on_mesh(program, ranks=4)


def test_the_operators_are_pytorchs():
    def program(mesh):
        partial = weft.from_local(torch.ones(4, 4), mesh, [Partial()])
        with weft.CommDebugMode() as mode:
            partial.redistribute(placements=[Shard(0)]).redistribute(placements=[Shard(1)]).full_tensor()
            weft.distribute_tensor(torch.ones(4), mesh, [Shard(0)])
            weft.distribute_tensor(torch.ones(4), mesh, [Replicate()])
        return dict(mode.get_comm_counts())

    for counts in on_mesh(program):
        assert counts == {
            functional.reduce_scatter_tensor: 1,
            torch.ops._dtensor.shard_dim_alltoall: 1,
            functional.all_gather_into_tensor: 1,
            torch.ops.c10d.scatter_: 1,
            torch.ops.c10d.broadcast_: 1,
        }


def test_operands_are_listed_with_their_placements():
    def program(mesh):
        x = weft.ones(4, 4, device_mesh=mesh, placements=[Shard(0)])
        with weft.CommDebugMode() as mode:
            x + x
        (operation,) = mode.comm_module_operation_counts["Global"]["operations_list"]
        assert operation["name"] is torch.ops.aten.add.Tensor
        assert operation["input_shape"] == [(4, 4)] * 2 and operation["input_sharding"] == [(Shard(0),)] * 2
        assert "sharding: [(Shard(dim=0),), (Shard(dim=0),)]" in mode.generate_comm_debug_tracing_table(1)

    on_mesh(program)
