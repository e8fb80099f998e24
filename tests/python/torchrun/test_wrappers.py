"""What torch wraps around a model, with distributed parameters in it: it works, or says at once what to use instead."""

import pytest
import torch
import torch.distributed as dist
import weft
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

FULL = StateDictOptions(full_state_dict=True)


@pytest.fixture
def model(mesh):
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    return weft.parallelize_module(model, mesh, {"0": weft.ColwiseParallel(), "1": weft.RowwiseParallel()})


@pytest.mark.parametrize("options", [{}, {"init_sync": False}])
def test_distributed_data_parallel_over_the_ranks_of_the_parameters(model, options):
    with pytest.raises(ValueError, match="a process group with one rank of each parameter's mesh is required"):
        DistributedDataParallel(model, **options)


def test_distributed_data_parallel_over_a_plain_model():
    output = DistributedDataParallel(nn.Linear(4, 4))(torch.ones(2, 4))
    output.sum().backward()


def test_fully_shard_without_the_switch(model):
    with pytest.raises(NotImplementedError, match=r"\[fully_shard\] plain parameters are required, but got 'weight', f32\[4,4\] .* Use weft.fully_shard, which"):
        fully_shard(model)


@pytest.mark.filterwarnings("ignore")
def test_fully_sharded_data_parallel(model):
    with pytest.raises(NotImplementedError, match="each rank holds a local tensor of a distributed tensor. Use to_local"):
        FullyShardedDataParallel(model, device_id=torch.device("cpu"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "call",
    [
        dist.all_reduce,
        lambda t: dist.broadcast(t, 0),
        lambda t: dist.all_gather([torch.zeros(4, 4) for _ in range(2)], t),
        lambda t: dist.all_gather_into_tensor(torch.zeros(8, 4), t),
        lambda t: dist.reduce_scatter_tensor(torch.zeros(2, 4), t),
        lambda t: dist.send(t, 1 - dist.get_rank()),
        lambda t: torch.distributed._functional_collectives.all_reduce(t, "sum", [0, 1]).wait(),
    ],
)
def test_collectives(model, call):
    with pytest.raises(NotImplementedError, match="collectives of torch.distributed take plain tensors, but got f32"):
        call(model[0].weight.detach())


def test_model_state_dicts(model):
    sharded = get_model_state_dict(model)
    assert all(weft.is_dtensor(value) for value in sharded.values())
    whole = get_model_state_dict(model, options=FULL)
    assert whole.keys() == sharded.keys()
    for name, value in whole.items():
        assert not weft.is_dtensor(value)
        torch.testing.assert_close(value, sharded[name].full_tensor())


@pytest.mark.parametrize("broadcast", [False, True])
def test_a_model_takes_global_values(model, broadcast):
    values = {name: torch.randn(value.shape) for name, value in model.state_dict().items()}
    given = values if not broadcast or dist.get_rank() == 0 else {}
    options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=broadcast)
    set_model_state_dict(model, given, options=options)
    for name, parameter in model.named_parameters():
        assert weft.is_dtensor(parameter)
        torch.testing.assert_close(parameter.full_tensor().detach(), values[name])


def test_optimizer_state_dicts(model):
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    sharded = get_optimizer_state_dict(model, optimizer)["state"]
    _, whole = get_state_dict(model, optimizer, options=FULL)
    for name, entry in whole["state"].items():
        assert weft.is_dtensor(sharded[name]["exp_avg"])
        assert not weft.is_dtensor(entry["exp_avg"])
        torch.testing.assert_close(entry["exp_avg"], sharded[name]["exp_avg"].full_tensor())
    set_optimizer_state_dict(model, optimizer, whole, options=FULL)
    again = get_optimizer_state_dict(model, optimizer)["state"]
    for name, entry in again.items():
        assert entry["exp_avg"].placements == sharded[name]["exp_avg"].placements
