"""get and set state dicts of models and optimizers with torch.distributed.checkpoint.state_dict: every option."""

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
from torch.utils import _pytree
from weft import Replicate, Shard


def sharded(mesh, seed, dim=0, dtype=torch.float32):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3)).to(dtype)
    for module in model:
        for name, parameter in list(module.named_parameters(recurse=False)):
            own = [Shard(dim)] if parameter.dim() == 2 else [Replicate()]
            setattr(module, name, nn.Parameter(weft.distribute_tensor(parameter.data, mesh, own, src_data_rank=None)))
    return model


def fully_sharded(mesh, seed, dim=0, dtype=torch.float32):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 3)).to(dtype)
    weft.fully_shard(model[0], mesh=mesh)
    return weft.fully_shard(model, mesh=mesh)


MODELS = {"sharded": sharded, "fully_sharded": fully_sharded}
# Whether values are global, and sent by the first rank, which torch has for global ones.
WAYS = [(False, False), (True, False), (True, True)]


def trained(mesh, made, seed, **options):
    model = made(mesh, seed, **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    x = torch.sin(torch.arange(20.0)).view(5, 4).to(options.get("dtype", torch.float32))
    x = x if made is fully_sharded else weft.distribute_tensor(x, mesh, [Replicate()])
    model(x).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    return model, optimizer


def leaves(state):
    """By their places."""
    return {_pytree.keystr(path): value for path, value in _pytree.tree_flatten_with_path(state)[0]}


def globals_of(state):
    return _pytree.tree_map(lambda value: weft.full_tensor(value.detach()).clone() if weft.is_dtensor(value) else value, state)


def expect_same(one, two):
    one, two = leaves(globals_of(one)), leaves(globals_of(two))
    assert one.keys() == two.keys()
    for first, second in zip(one.values(), (two[place] for place in one)):
        assert torch.equal(first, second) and first.dtype == second.dtype if isinstance(first, torch.Tensor) else first == second


@pytest.mark.parametrize("name", MODELS)
def test_an_offloaded_state_dict_has_copies_of_the_shards(mesh, name):
    model, optimizer = trained(mesh, MODELS[name], 0)
    options = StateDictOptions(cpu_offload=True)
    expect_same(get_model_state_dict(model, options=options), get_model_state_dict(model))
    expect_same(get_optimizer_state_dict(model, optimizer, options=options), get_optimizer_state_dict(model, optimizer))
    assert all(weft.is_dtensor(value) and value.device.type == "cpu" for value in get_model_state_dict(model, options=options).values())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("full, from_first", WAYS)
@pytest.mark.parametrize("offload", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_was_got_is_set(mesh, name, full, offload, from_first, dtype):
    model, optimizer = trained(mesh, MODELS[name], 0, dtype=dtype)
    expected = globals_of(get_state_dict(model, optimizer))
    of_model, of_optimizer = get_state_dict(model, optimizer, options=StateDictOptions(full_state_dict=full, cpu_offload=offload and not full))
    if from_first and dist.get_rank() > 0:
        of_model, of_optimizer = {}, {}
    other, other_optimizer = trained(mesh, MODELS[name], 1, dtype=dtype)
    options = StateDictOptions(full_state_dict=full, cpu_offload=offload, broadcast_from_rank0=from_first)
    # Two calls, because set_state_dict takes an empty dict, which ranks other than the first may give, as nothing to be set.
    missing = set_model_state_dict(other, of_model, options=options)
    set_optimizer_state_dict(other, other_optimizer, of_optimizer, options=options)
    assert not missing.missing_keys and not missing.unexpected_keys
    expect_same(get_state_dict(other, other_optimizer), expected)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("full", [False, True])
def test_without_strict_what_one_side_lacks_is_listed(mesh, name, full):
    model, _ = trained(mesh, MODELS[name], 0)
    other = MODELS[name](mesh, 1)
    before = globals_of(get_model_state_dict(other))
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=full))
    expected = globals_of(state) | {"1.bias": before["1.bias"]}
    del state["1.bias"]
    state["extra"] = torch.ones(1)
    with pytest.raises(RuntimeError, match="extra" if full else "1.bias"):  # torch fills up global values with those of the model
        set_model_state_dict(MODELS[name](mesh, 1), dict(state), options=StateDictOptions(full_state_dict=full))
    keys = set_model_state_dict(other, state, options=StateDictOptions(full_state_dict=full, strict=False))
    assert keys.unexpected_keys == ["extra"]
    after = globals_of(get_model_state_dict(other))
    assert all(torch.equal(after[key], expected[key]) for key in after)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("full, from_first", WAYS)
def test_the_flat_state_of_an_optimizer_is_set(mesh, name, full, from_first):
    model, optimizer = trained(mesh, MODELS[name], 0)
    expected = globals_of(get_optimizer_state_dict(model, optimizer))
    options = StateDictOptions(full_state_dict=full, flatten_optimizer_state_dict=True, broadcast_from_rank0=from_first)
    flat = get_optimizer_state_dict(model, optimizer, options=options)
    assert "state.0.weight.exp_avg" in flat and weft.is_dtensor(flat["state.0.weight.exp_avg"]) == (not full)
    other, other_optimizer = trained(mesh, MODELS[name], 1)
    set_optimizer_state_dict(other, other_optimizer, flat, options=options)
    expect_same(get_optimizer_state_dict(other, other_optimizer), expected)


@pytest.mark.parametrize("full", [False, True])
def test_frozen_parameters_are_left_out(mesh, full):
    model = sharded(mesh, 0)
    model[0].requires_grad_(False)
    state = get_model_state_dict(model, options=StateDictOptions(ignore_frozen_params=True, full_state_dict=full))
    assert list(state) == ["1.weight", "1.bias"]
    expect_same(state, {key: value for key, value in get_model_state_dict(model).items() if key in state})
