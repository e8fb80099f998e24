"""Distributed tensors on meta and how they come to have memory."""

import pytest
import torch
import weft
from torch import nn


def model(mesh, device="meta"):
    with torch.device(device):
        layer = nn.Linear(4, 4)
    layer.weight = nn.Parameter(weft.distribute_tensor(layer.weight, mesh, [weft.Shard(0)]))
    layer.bias = nn.Parameter(weft.distribute_tensor(layer.bias, mesh, [weft.Replicate()]))
    return layer


def on_two_ranks(test):
    def run():
        weft.run_on_ranks(2, lambda _: test(weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))))

    run.__name__ = test.__name__
    return run


def expect_on(device, tensor):
    assert weft.is_dtensor(tensor)
    assert tensor.device.type == device
    assert weft.to_local(tensor).device.type == device


@on_two_ranks
def test_factories_make_tensors_on_the_device_that_is_asked_for(mesh):
    tensors = {
        "meta": weft.distribute_tensor(torch.ones(4, 4, device="meta"), mesh, [weft.Shard(0)]),
        "cpu": weft.distribute_tensor(torch.ones(4, 4), mesh, [weft.Shard(0)]),
    }
    for tensor in tensors.values():
        for device in ("cpu", "meta", "cpu"):  # more than once: a known call takes another way
            for like in (torch.empty_like, torch.zeros_like, torch.ones_like):
                expect_on(device, like(tensor, device=device))
            expect_on(device, torch.full_like(tensor, 3.0, device=device))
            if device == "meta" or tensor.device.type == "cpu":
                expect_on(device, torch.rand_like(tensor, device=device))
                expect_on(device, tensor.to(device))
            expect_on(device, tensor.new_empty((4, 4), device=device))
            expect_on(device, tensor.new_zeros((2, 4), device=device))
            expect_on(device, tensor.new_empty_strided((4, 4), (4, 1), device=device))
        expect_on(tensor.device.type, torch.empty_like(tensor))
    torch.testing.assert_close(torch.ones_like(tensors["meta"], device="cpu").full_tensor(), torch.ones(4, 4))


@on_two_ranks
def test_to_meta_keeps_the_layout(mesh):
    x = weft.distribute_tensor(torch.ones(4, 6), mesh, [weft.Shard(0)])
    for tensor in (x, x.T, x.redistribute(placements=[weft.Replicate()])):
        plain = torch.empty_strided(tensor.shape, tensor.stride())
        for convert in (
            lambda t: t.to("meta"),
            lambda t: t.to("meta", torch.float64),
            lambda t: t.to(torch.empty(1, device="meta", dtype=torch.int32)),
            lambda t: t.to(device="meta", memory_format=torch.contiguous_format),
        ):
            result = convert(tensor)
            expect_on("meta", result)
            assert result.placements == tensor.placements
            assert (result.dtype, result.stride()) == (convert(plain).dtype, convert(plain).stride())
    layer = nn.Linear(4, 4)
    layer.weight = nn.Parameter(weft.distribute_tensor(layer.weight, mesh, [weft.Shard(0)]))
    expect_on("meta", layer.to("meta").weight)
    assert isinstance(layer.weight, nn.Parameter)
    y = x.clone().requires_grad_().to("meta")
    assert y.requires_grad
    with pytest.raises(NotImplementedError, match="a gradient with data is required"):
        y.sum().backward()


@on_two_ranks
def test_to_empty_gives_memory(mesh):
    layer = model(mesh).to_empty(device="cpu")
    for parameter in layer.parameters():
        assert isinstance(parameter, nn.Parameter)
        expect_on("cpu", parameter)
    with torch.no_grad():
        layer.weight.fill_(2.0)
        layer.bias.fill_(1.0)
    x = weft.distribute_tensor(torch.ones(3, 4), mesh, [weft.Replicate()])
    torch.testing.assert_close(layer(x).full_tensor(), torch.full((3, 4), 9.0))


@on_two_ranks
def test_what_has_no_data_cannot_be_copied(mesh):
    for move in (
        lambda: model(mesh).to("cpu"),
        lambda: model(mesh).cpu(),
        lambda: model(mesh).weight.to("cpu"),
        lambda: model(mesh).weight.to(device="cpu", dtype=torch.float64),
        lambda: model(mesh).weight.cpu(),
        lambda: model(mesh, "cpu").weight.detach().copy_(model(mesh).weight.detach()),
    ):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            move()


@on_two_ranks
def test_dtypes_change_on_meta(mesh):
    layer = model(mesh).half()
    expect_on("meta", layer.weight)
    assert layer.weight.dtype == torch.float16
    layer = model(mesh, "cpu").to(torch.bfloat16)
    expect_on("cpu", layer.weight)
    assert layer.weight.dtype == torch.bfloat16


@on_two_ranks
def test_state_dicts_are_loaded(mesh):
    source = model(mesh, "cpu")
    expected = source.weight.full_tensor()
    # Distributed values into memory, and in the place of what has none.
    for layer in (model(mesh).to_empty(device="cpu"), model(mesh)):
        layer.load_state_dict(source.state_dict(), assign=layer.weight.is_meta)
        expect_on("cpu", layer.weight)
        torch.testing.assert_close(layer.weight.full_tensor(), expected)
    # Global values: said to be the same on every rank.
    plain = {name: value.full_tensor() for name, value in source.state_dict().items()}
    layer = model(mesh).to_empty(device="cpu")
    with pytest.raises(RuntimeError, match="distributed and plain tensors cannot be mixed"):
        layer.load_state_dict(plain)
    with weft.replicate_plain():
        layer.load_state_dict(plain)
    expect_on("cpu", layer.weight)
    torch.testing.assert_close(layer.weight.full_tensor(), expected)


@on_two_ranks
def test_deferred_initialisation_then_load(mesh):
    layer = weft.materialize(model(mesh), seed=7)
    expect_on("cpu", layer.weight)
    layer.load_state_dict(model(mesh, "cpu").state_dict())
    expect_on("cpu", layer.weight)
