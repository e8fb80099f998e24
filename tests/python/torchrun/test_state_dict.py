"""torch.distributed.checkpoint over models with distributed parameters: async_save, and state dicts with every option."""

import pickle
from multiprocessing.reduction import ForkingPickler

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import weft
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from weft import Replicate, Shard


def made(mesh, placements, seed, device="cpu"):
    torch.manual_seed(seed)
    with torch.device(device):
        model = nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.Linear(6, 3))
    for module in model:
        for name, parameter in list(module.named_parameters(recurse=False)):
            own = placements if parameter.dim() == 2 else [Replicate()]
            value = weft.distribute_tensor(parameter.data, mesh, own, src_data_rank=None)
            setattr(module, name, nn.Parameter(value))
    return model


def trained(mesh, placements, seed):
    model = made(mesh, placements, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    model(weft.rand(5, 4, device_mesh=mesh, placements=[Replicate()])).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


def globals_of(state):
    return torch.utils._pytree.tree_map(
        lambda value: weft.full_tensor(value.detach()).clone() if weft.is_dtensor(value) else value, state
    )


def expect_same(one, two):
    for first, second in zip(torch.utils._pytree.tree_leaves(globals_of(one)), torch.utils._pytree.tree_leaves(globals_of(two))):
        assert torch.equal(first, second) if isinstance(first, torch.Tensor) else first == second


def test_an_asynchronous_save_writes_what_was_there_when_it_was_called(folder, mesh):
    model, optimizer = trained(mesh, [Shard(0)], 0)
    state = {"model": get_model_state_dict(model), "optimizer": get_optimizer_state_dict(model, optimizer), "step": 7}
    expected = globals_of(state["model"])
    future = dcp.async_save(state, checkpoint_id=folder)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(-1)
    future.result()
    other, _ = trained(mesh, [Shard(1)], 1)
    loaded = {"model": get_model_state_dict(other), "step": 0}
    dcp.load(loaded, checkpoint_id=folder)
    assert loaded["step"] == 7
    expect_same(loaded["model"], expected)


@pytest.mark.parametrize("offload", [False, True])
def test_full_state_dicts_have_global_tensors(mesh, offload):
    model, optimizer = trained(mesh, [Shard(0)], 0)
    options = StateDictOptions(full_state_dict=True, cpu_offload=offload)
    for full, sharded in (
        (get_model_state_dict(model, options=options), get_model_state_dict(model)),
        (get_optimizer_state_dict(model, optimizer, options=options), get_optimizer_state_dict(model, optimizer)),
    ):
        expected = globals_of(sharded)
        if offload and dist.get_rank() > 0:
            assert full == {}
            continue
        assert not any(weft.is_dtensor(value) for value in torch.utils._pytree.tree_leaves(full))
        expect_same(full, expected)


@pytest.mark.parametrize("from_first", [False, True])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_global_values_are_set_in_the_layouts_of_a_model(mesh, from_first, device):
    model, _ = trained(mesh, [Shard(0)], 0)
    full = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    expected = globals_of(get_model_state_dict(model))
    if from_first and dist.get_rank() > 0:
        full = {}
    other = made(mesh, [Shard(1)], 1, device)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=from_first)
    set_model_state_dict(other, full, options=options)
    expect_same(get_model_state_dict(other), expected)
    assert other[0].weight.placements == (Shard(1),)


@pytest.mark.parametrize("from_first", [False, True])
def test_global_values_are_set_in_an_optimizer(mesh, from_first):
    model, optimizer = trained(mesh, [Shard(0)], 0)
    full = get_optimizer_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=True))
    expected = globals_of(get_optimizer_state_dict(model, optimizer))
    if from_first and dist.get_rank() > 0:
        full = {}
    other, other_optimizer = trained(mesh, [Shard(1)], 1)
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=from_first)
    set_optimizer_state_dict(other, other_optimizer, full, options=options)
    expect_same(get_optimizer_state_dict(other, other_optimizer), expected)
    assert other_optimizer.state[other[0].weight]["exp_avg"].placements == (Shard(1),)


def test_a_distributed_tensor_can_be_sent_to_the_process_that_saves(mesh):
    """As dcp.async_save does with AsyncCheckpointerType.PROCESS, whose process has the same rank. The values are in shared memory."""
    w = weft.distribute_tensor(torch.arange(12.0).view(4, 3), mesh, [Shard(0)])
    sent = pickle.loads(bytes(ForkingPickler.dumps({"w": w, "plain": torch.ones(2), "parameter": nn.Parameter(w)})))
    assert weft.spec(sent["w"]) == weft.spec(w) and sent["plain"].tolist() == [1, 1]
    weft.to_local(w).fill_(5)
    assert (weft.full_tensor(sent["w"]) == 5).all() and weft.is_dtensor(sent["parameter"])


def fully_sharded(mesh, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 7), nn.LayerNorm(7), nn.Linear(7, 3))
    weft.fully_shard(model[0], mesh)
    return weft.fully_shard(model, mesh)


@pytest.mark.parametrize("is_global", [True, False], ids=["full state dict", "shards"])
def test_state_dicts_of_a_fully_sharded_model(mesh, folder, is_global):
    model, other = fully_sharded(mesh, 1), fully_sharded(mesh, 2)
    expected = {name: value.full_tensor() for name, value in model.state_dict().items()}
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=is_global))
    assert all(weft.is_dtensor(value) != is_global for value in state.values())
    dcp.save(state, checkpoint_id=folder)
    loaded = get_model_state_dict(other, options=StateDictOptions(full_state_dict=is_global))
    dcp.load(loaded, checkpoint_id=folder)
    set_model_state_dict(other, loaded, options=StateDictOptions(full_state_dict=is_global))
    for name, value in other.state_dict().items():
        assert isinstance(value.placements[0], weft.RaggedShard)
        assert torch.equal(value.full_tensor(), expected[name]), name
    x = torch.ones(5, 4)
    torch.testing.assert_close(other(x), model(x), rtol=0, atol=0)
