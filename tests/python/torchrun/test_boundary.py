"""The boundary between plain and distributed tensors, compared with PyTorch's DTensor, in two processes."""

import pytest
import torch
import torch.distributed as dist
import weft
from torch.distributed._functional_collectives import AsyncCollectiveTensor, all_reduce
from torch.distributed.device_mesh import init_device_mesh as torch_init_device_mesh
from torch.distributed.tensor import DTensor as TorchDTensor
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor import distribute_tensor as torch_distribute_tensor

PLAIN = torch.arange(48.0).reshape(2, 6, 4)


@pytest.fixture
def meshes():
    return weft.init_device_mesh("cpu", (2,)), torch_init_device_mesh("cpu", (2,))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0), (0, 2, 1)])
def test_from_local_has_the_strides_of_pytorchs(meshes, order):
    local = PLAIN.permute(order)
    for dim in range(3):
        ours = weft.from_local(local, meshes[0], [Shard(dim)])
        theirs = TorchDTensor.from_local(local, meshes[1], [Shard(dim)])
        assert ours.stride() == theirs.stride() and ours.to_local().stride() == theirs.to_local().stride()
        assert ours.to_local().data_ptr() == theirs.to_local().data_ptr()
        assert torch.equal(ours.full_tensor(), theirs.full_tensor())


@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Replicate(), Partial(), Partial("avg"), Partial("max")])
def test_distribute_tensor_has_the_strides_and_values_of_pytorchs(meshes, placement):
    for plain in (PLAIN, PLAIN.permute(2, 0, 1)):
        ours = weft.distribute_tensor(plain, meshes[0], [placement])
        theirs = torch_distribute_tensor(plain, meshes[1], [placement])
        assert ours.stride() == theirs.stride() and ours.shape == theirs.shape
        assert torch.equal(ours.full_tensor(), theirs.full_tensor())


def test_without_a_source_each_rank_takes_its_own_values(meshes):
    mine = PLAIN + dist.get_rank()
    for placement in (Shard(0), Shard(1), Replicate()):
        ours = weft.distribute_tensor(mine, meshes[0], [placement], src_data_rank=None)
        theirs = torch_distribute_tensor(mine, meshes[1], [placement], src_data_rank=None)
        assert torch.equal(ours.to_local(), theirs.to_local())


def test_an_asynchronous_local_tensor_is_pytorchs(meshes):
    found = []
    for mesh, distribute in zip(meshes, (weft.distribute_tensor, torch_distribute_tensor)):
        x = distribute(PLAIN, mesh, [Shard(0)]).requires_grad_()
        local = x.redistribute(mesh, [Replicate()], async_op=True).to_local()
        assert isinstance(local, AsyncCollectiveTensor) and not local.completed
        result = local * PLAIN
        assert type(result) is torch.Tensor
        result.sum().backward()
        found.append((result, x.grad.full_tensor()))
    assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][1], found[1][1])


def test_a_tensor_of_torchs_collectives_keeps_its_graph(meshes):
    class Reduced(torch.autograd.Function):
        @staticmethod
        def forward(context, tensor):
            return all_reduce(tensor, "sum", dist.group.WORLD)

        @staticmethod
        def backward(context, gradient):
            return gradient

    x = torch.ones(2, requires_grad=True)
    reduced = Reduced.apply(x)
    assert isinstance(reduced, AsyncCollectiveTensor)
    weft.from_local(reduced, meshes[0], [Replicate()]).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [1.0, 1.0]


def test_a_tensor_goes_to_a_mesh_of_ranks_in_another_order(meshes):
    other = weft.DeviceMesh("cpu", [1, 0], mesh_dim_names=("back",))
    x = weft.distribute_tensor(PLAIN, meshes[0], [Shard(0)]).requires_grad_()
    y = x.redistribute(other, [Shard(0)])
    assert torch.equal(y.to_local(), PLAIN[1 - dist.get_rank()][None]) and torch.equal(y.full_tensor(), PLAIN)
    (y * y).sum().backward()
    assert torch.equal(x.grad.full_tensor(), 2 * PLAIN)


def test_a_tensor_goes_to_one_rank_and_comes_back(meshes):
    first = weft.DeviceMesh("cpu", [0], mesh_dim_names=("one",))
    x = weft.distribute_tensor(PLAIN, meshes[0], [Shard(1)])
    y = x.redistribute(first, [Replicate()])
    assert y.to_local().numel() == (PLAIN.numel() if dist.get_rank() == 0 else 0)
    assert torch.equal(y.redistribute(meshes[0], [Shard(1)]).full_tensor(), PLAIN)
