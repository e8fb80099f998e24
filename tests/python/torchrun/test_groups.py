"""Meshes and tensors on the process groups of torch.distributed, together with PyTorch's own."""

import pytest
import torch
import torch.distributed as dist
import weft
from torch.distributed.device_mesh import DeviceMesh as TorchMesh
from torch.distributed.device_mesh import init_device_mesh as torch_init_device_mesh
from torch.distributed.tensor import DTensor as TorchDTensor
from torch.distributed.tensor import Partial as TorchPartial
from torch.distributed.tensor import Replicate as TorchReplicate
from torch.distributed.tensor import Shard as TorchShard
from torch.distributed.tensor import distribute_tensor as torch_distribute_tensor
from weft import Partial, Replicate, Shard


def test_a_mesh_says_of_itself_what_torchs_says():
    for shape, names in (((2,), ("tp",)), ((2, 1), ("dp", "tp")), ((1, 2), ("dp", "tp"))):
        ours = weft.init_device_mesh("cpu", shape, mesh_dim_names=names)
        theirs = torch_init_device_mesh("cpu", shape, mesh_dim_names=names)
        assert ours.mesh_dim_names == theirs.mesh_dim_names and ours.shape == theirs.shape and ours.ndim == theirs.ndim
        assert ours.size() == theirs.size() and ours.size(0) == theirs.size(0)
        assert ours.device_type == theirs.device_type and torch.equal(ours.mesh, theirs.mesh)
        assert ours.get_rank() == theirs.get_rank() == dist.get_rank()
        assert tuple(ours.get_coordinate()) == tuple(theirs.get_coordinate())
        for name in names:
            assert ours.get_local_rank(name) == theirs.get_local_rank(name)
            assert torch.equal(ours[name].mesh, theirs[name].mesh)
            assert dist.get_process_group_ranks(ours.get_group(name)) == dist.get_process_group_ranks(theirs.get_group(name))


def test_a_group_of_a_mesh_is_one_of_torch_distributed():
    mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    value = torch.tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(value, group=mesh.get_group())
    assert value.item() == 3.0
    assert len(mesh.get_all_groups()) == 1


def test_meshes_convert_both_ways():
    theirs = torch_init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    ours = weft.DeviceMesh.from_torch(theirs)
    assert ours == weft.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
    assert ours.to_torch() == theirs
    assert isinstance(ours["tp"].to_torch(), TorchMesh) and ours["tp"].to_torch() == theirs["tp"]
    assert weft.DeviceMesh.from_torch(theirs["tp"]) == ours["tp"]
    x = weft.distribute_tensor(torch.arange(4.0), theirs["tp"], [Shard(0)])
    assert x.device_mesh == ours["tp"]


def test_a_mesh_of_ranks_in_another_order():
    mesh = weft.DeviceMesh("cpu", [1, 0], mesh_dim_names=("tp",))
    x = weft.distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
    assert x.to_local().tolist() == ([2.0, 3.0] if dist.get_rank() == 0 else [0.0, 1.0])
    assert x.full_tensor().tolist() == [0.0, 1.0, 2.0, 3.0]


def test_a_mesh_from_a_group():
    mesh = weft.DeviceMesh.from_group(dist.group.WORLD, "cpu", mesh_dim_names=("tp",))
    assert mesh == weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))


def test_a_mesh_that_cannot_be_is_an_error_on_every_rank():
    with pytest.raises(ValueError, match="needs ranks below the world size 2, but got rank 2"):
        weft.init_device_mesh("cpu", (3,))
    with pytest.raises(ValueError, match="every mesh dim needs at least one rank"):
        weft.init_device_mesh("cpu", (0,))


PAIRS = [
    ((Shard(0),), (TorchShard(0),)),
    ((Shard(1),), (TorchShard(1),)),
    ((Replicate(),), (TorchReplicate(),)),
]


@pytest.mark.parametrize("shape", [(4, 6), (5, 3), (1, 2), (2, 3, 4)])
@pytest.mark.parametrize("ours,theirs", PAIRS)
def test_parts_and_redistributions_are_those_of_torch(shape, ours, theirs):
    mesh = weft.init_device_mesh("cpu", (2,))
    whole = torch.randn(shape)
    mine, its = weft.distribute_tensor(whole, mesh, ours), torch_distribute_tensor(whole, mesh.to_torch(), theirs)
    assert torch.equal(mine.to_local(), its.to_local())
    for to_ours, to_theirs in PAIRS:
        moved, its_moved = mine.redistribute(placements=to_ours), its.redistribute(placements=to_theirs)
        assert torch.equal(moved.to_local(), its_moved.to_local()) and moved.stride() == its_moved.stride()
    assert torch.equal(mine.full_tensor(), its.full_tensor())


def test_partial_values_reduce_as_torchs_do():
    mesh = weft.init_device_mesh("cpu", (2,))
    local = torch.randn(3, 4)
    for op in ("sum", "avg", "max", "min"):
        mine = weft.DTensor.from_local(local, mesh, [Partial(op)])
        its = TorchDTensor.from_local(local, mesh.to_torch(), [TorchPartial(op)])
        assert torch.equal(mine.full_tensor(), its.full_tensor())
        assert torch.equal(
            mine.redistribute(placements=[Shard(0)]).to_local(), its.redistribute(placements=[TorchShard(0)]).to_local()
        )


@pytest.mark.parametrize(
    "ours,theirs", PAIRS + [((Partial(),), (TorchPartial(),)), ((Partial("max"),), (TorchPartial("max"),))]
)
def test_tensors_convert_both_ways_without_copying(ours, theirs):
    mesh = weft.init_device_mesh("cpu", (2,))
    local = torch.randn(3, 4)
    mine = weft.from_local(local, mesh, ours)
    its = weft.to_torch(mine)
    assert isinstance(its, TorchDTensor) and tuple(its.placements) == theirs and its.shape == mine.shape
    assert its.to_local().data_ptr() == local.data_ptr()
    back = weft.from_torch(its)
    assert weft.spec(back) == weft.spec(mine) and back.to_local().data_ptr() == local.data_ptr()


def test_uneven_tensors_convert_too():
    mesh = weft.init_device_mesh("cpu", (2,))
    mine = weft.distribute_tensor(torch.arange(15.0).reshape(5, 3), mesh, [Shard(0)])
    its = weft.to_torch(mine)
    assert its.shape == (5, 3) and torch.equal(its.full_tensor(), mine.full_tensor())
    assert torch.equal(weft.from_torch(its).full_tensor(), mine.full_tensor())


def test_gradients_flow_through_conversions():
    mesh = weft.init_device_mesh("cpu", (2,))
    x = weft.distribute_tensor(torch.randn(4, 3), mesh, [Shard(0)]).requires_grad_()
    w = torch_distribute_tensor(torch.randn(4, 3), mesh.to_torch(), [TorchShard(0)]).requires_grad_()
    (weft.to_torch(x) * w).sum().backward()
    assert torch.equal(x.grad.full_tensor(), w.detach().full_tensor())
    y = weft.from_torch(w)
    (y * x.detach() * 2).sum().backward()
    assert torch.equal(w.grad.full_tensor(), 3 * x.detach().full_tensor())


def test_an_asynchronous_tensor_of_torch_is_waited_for():
    mesh = weft.init_device_mesh("cpu", (2,))
    its = torch_distribute_tensor(torch.arange(4.0), mesh.to_torch(), [TorchShard(0)])
    mine = weft.from_torch(its.redistribute(placements=[TorchReplicate()], async_op=True))
    assert mine.to_local().tolist() == [0.0, 1.0, 2.0, 3.0] and type(mine.to_local()) is torch.Tensor


def test_what_does_not_convert_says_so():
    with pytest.raises(TypeError, match=r"\[from_torch\] a DTensor of torch.distributed.tensor is required, but got Tensor"):
        weft.from_torch(torch.ones(1))
    with pytest.raises(TypeError, match="a distributed tensor is required, but got a plain one"):
        weft.to_torch(torch.ones(1))


def test_ranks_as_threads_run_beside_the_process_groups():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (3,))
        with pytest.raises(ValueError, match="was made without"):
            mesh.get_group()
        return weft.distribute_tensor(torch.arange(3.0), mesh, [Shard(0)]).to_local().item()

    assert weft.run_on_ranks(3, rank_program) == [0.0, 1.0, 2.0]
