"""Sharded checkpoints by torch.distributed.checkpoint, both ways with those of PyTorch's DTensor."""


import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import weft
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.tensor import Replicate as TorchReplicate
from torch.distributed.tensor import Shard as TorchShard
from torch.distributed.tensor import distribute_tensor as torch_distribute_tensor
from torch.distributed.tensor import zeros as torch_zeros
from weft import Partial, Replicate, Shard, StridedShard

OURS = [[Shard(0)], [Shard(1)], [Replicate()], [StridedShard(0, split_factor=2)]]
THEIRS = [[TorchShard(0)], [TorchShard(1)], [TorchReplicate()]]


@pytest.mark.parametrize("shape", [(8, 6), (5, 3), (1, 2), (0, 2)])
@pytest.mark.parametrize("placements", OURS, ids=str)
def test_a_tensor_is_loaded_under_any_placements(folder, mesh, shape, placements):
    whole = torch.randn(shape)
    dcp.save({"w": weft.distribute_tensor(whole, mesh, placements)}, checkpoint_id=folder)
    for other in OURS:
        state = {"w": weft.zeros(shape, device_mesh=mesh, placements=other)}
        dcp.load(state, checkpoint_id=folder)
        assert torch.equal(state["w"].full_tensor(), whole) and state["w"].placements == tuple(other)
    plain = {"w": torch.zeros(shape)}
    dcp.load(plain, checkpoint_id=folder)
    assert torch.equal(plain["w"], whole)


@pytest.mark.parametrize("shape", [(8, 6), (5, 3)])
@pytest.mark.parametrize("placements", OURS, ids=str)
def test_pytorchs_dtensor_loads_what_weft_saved(folder, mesh, shape, placements):
    whole = torch.randn(shape)
    dcp.save({"w": weft.distribute_tensor(whole, mesh, placements)}, checkpoint_id=folder)
    for other in THEIRS:
        state = {"w": torch_zeros(shape, device_mesh=mesh.to_torch(), placements=other)}
        dcp.load(state, checkpoint_id=folder)
        assert torch.equal(state["w"].full_tensor(), whole)


@pytest.mark.parametrize("shape", [(8, 6), (5, 3)])
@pytest.mark.parametrize("placements", THEIRS, ids=str)
def test_weft_loads_what_pytorchs_dtensor_saved(folder, mesh, shape, placements):
    whole = torch.randn(shape)
    dcp.save({"w": torch_distribute_tensor(whole, mesh.to_torch(), placements)}, checkpoint_id=folder)
    for other in OURS:
        state = {"w": weft.zeros(shape, device_mesh=mesh, placements=other)}
        dcp.load(state, checkpoint_id=folder)
        assert torch.equal(state["w"].full_tensor(), whole)


@pytest.mark.parametrize("ours,theirs", list(zip(OURS, THEIRS)))
def test_the_metadata_is_that_of_pytorchs_dtensor(mesh, ours, theirs):
    whole = torch.randn(8, 6)
    mine, its = weft.distribute_tensor(whole, mesh, ours), torch_distribute_tensor(whole, mesh.to_torch(), theirs)
    assert mine.__create_write_items__("w", mine) == its.__create_write_items__("w", its)
    assert mine.__create_chunk_list__() == its.__create_chunk_list__()


def test_a_mesh_of_two_dims(folder):
    mesh = weft.init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp"))
    whole = torch.randn(6, 4)
    dcp.save({"w": weft.distribute_tensor(whole, mesh, [Shard(0), Shard(0)])}, checkpoint_id=folder)
    state = {"w": weft.zeros(6, 4, device_mesh=mesh["dp"], placements=[Shard(1)])}
    dcp.load(state, checkpoint_id=folder)
    assert torch.equal(state["w"].full_tensor(), whole)


def test_a_rank_outside_the_mesh_writes_and_reads_nothing(folder):
    mesh = weft.DeviceMesh("cpu", [1])
    whole = torch.arange(6.0)
    dcp.save({"w": weft.distribute_tensor(whole, mesh, [Shard(0)]), "step": 3}, checkpoint_id=folder)
    state = {"w": weft.zeros(6, device_mesh=mesh, placements=[Shard(0)]), "step": 0}
    dcp.load(state, checkpoint_id=folder)
    assert state["w"].to_local().tolist() == (whole.tolist() if dist.get_rank() == 1 else []) and state["step"] == 3


def test_terms_of_a_value_are_not_saved(mesh):
    terms = weft.from_local(torch.ones(2), mesh, [Partial()])
    for ask in (lambda: terms.__create_chunk_list__(), lambda: terms.__create_write_items__("w", terms)):
        with pytest.raises(ValueError, match=r"\[checkpoint\] ranks must hold values and not terms"):
            ask()


def model_and_optimizer(mesh, placements):
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2))

    def partition(name, module, mesh):
        for key, parameter in list(module.named_parameters(recurse=False)):
            cut = placements if parameter.dim() == 2 else [Replicate()]
            module.register_parameter(key, nn.Parameter(weft.distribute_tensor(parameter.data, mesh, cut)))

    weft.distribute_module(model, mesh, partition)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(weft.ones(3, 4, device_mesh=mesh)).sum().backward()
    optimizer.step()
    return model, optimizer


def test_a_model_and_its_optimizer_are_resumed_under_other_placements(folder, mesh):
    model, optimizer = model_and_optimizer(mesh, [Shard(0)])
    model_state, optimizer_state = get_state_dict(model, optimizer)
    dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder)

    other, other_optimizer = model_and_optimizer(mesh, [Shard(1)])
    model_state, optimizer_state = get_state_dict(other, other_optimizer)
    state = {"model": model_state, "optimizer": optimizer_state}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(other, other_optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    for one, two in zip(model.parameters(), other.parameters()):
        assert torch.equal(one.full_tensor(), two.full_tensor())
        first, second = optimizer.state[one], other_optimizer.state[two]
        assert torch.equal(first["exp_avg"].full_tensor(), second["exp_avg"].full_tensor())
        assert second["exp_avg"].placements == two.placements
    assert other[0].weight.placements == (Shard(1),)
