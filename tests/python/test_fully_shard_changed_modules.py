"""Fully sharded modules whose parameters someone changes later: the values of one device, or an error that says what to do."""

import copy

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F
from weft import Partial, Replicate, Shard

RANKS = 2

torch.manual_seed(1)
X, TARGET = torch.randn(8, 5), torch.randn(8, 3)

# Made once: ranks as threads share torch's random numbers.
MODEL = nn.Sequential(nn.Linear(5, 7), nn.Sequential(nn.Tanh(), nn.Linear(7, 7)), nn.Linear(7, 3))


def plain_model():
    return copy.deepcopy(MODEL)


def loss_of(model, x, target):
    return F.mse_loss(model(x), target)


def on_mesh(program):
    """Runs it on ranks with a sharded model and their batch."""

    def run(rank):
        mesh = weft.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("dp",))
        model = plain_model()
        weft.fully_shard(model[1], mesh)
        weft.fully_shard(model, mesh)
        program(model, X.chunk(RANKS)[rank], TARGET.chunk(RANKS)[rank])

    weft.run_on_ranks(RANKS, run)


def expect_gradients(model, expected):
    for name, parameter in expected.named_parameters():
        torch.testing.assert_close(model.get_parameter(name).grad.full_tensor(), parameter.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("placement", [Replicate(), Shard(0), Shard(-1), Partial()], ids=str)
def test_data_of_another_layout(placement):
    expected = plain_model()
    for parameter in expected.parameters():
        parameter.data = parameter.data * 0.5
    loss_of(expected, X, TARGET).backward()

    def program(model, x, target):
        loss_of(model, x, target).backward()
        model.zero_grad()
        placements = [p.placements for p in model.parameters()]
        for parameter in model.parameters():
            parameter.data = (parameter.data * 0.5).redistribute(placements=[Replicate()]).redistribute(placements=[placement])
        loss_of(model, x, target).backward()
        assert [p.placements for p in model.parameters()] == placements
        expect_gradients(model, expected)

    on_mesh(program)


def test_parameters_to_vector_and_back():
    expected = plain_model()
    for parameter in expected.parameters():
        parameter.data = parameter.data * 0.5
    loss_of(expected, X, TARGET).backward()

    def program(model, x, target):
        vector = nn.utils.parameters_to_vector(model.parameters())
        nn.utils.vector_to_parameters(vector * 0.5, model.parameters())
        loss_of(model, x, target).backward()
        expect_gradients(model, expected)

    on_mesh(program)


def test_data_of_another_shape_is_refused():
    def program(model, x, target):
        weight = model[0].weight
        weight.data = weft.distribute_tensor(torch.zeros(8, 5), weight.device_mesh, [Shard(0)])
        with pytest.raises(ValueError, match="must keep their mesh and shape, but .*f32.8,5"):
            model(x)

    on_mesh(program)


def frozen_module(model):
    model[1].requires_grad_(False)


def frozen_parameter(model):
    model[0].weight.requires_grad_(False)


@pytest.mark.parametrize("freeze", [frozen_module, frozen_parameter])
def test_sums_of_gradients_of_parameters_that_were_frozen_since(freeze):
    """On one device they are in `.grad` when the parameters are frozen, and stay there."""

    def two_passes(model, x, target):
        loss_of(model, x, target).backward()
        loss_of(model, x, target).backward()
        freeze(model)

    expected = plain_model()
    two_passes(expected, X, TARGET)
    loss_of(expected, X, TARGET).backward()

    def program(model, x, target):
        model.set_requires_gradient_sync(False)
        two_passes(model, x, target)
        model.set_requires_gradient_sync(True)
        loss_of(model, x, target).backward()
        expect_gradients(model, expected)

    on_mesh(program)
