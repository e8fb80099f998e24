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


def test_parameters_of_another_layout():
    expected = plain_model()
    loss_of(expected, X, TARGET).backward()

    def program(model, x, target):
        for _ in range(2):  # in the second pass the gather of the module inside is started before its forward
            with torch.no_grad():
                model(x)
        state = {name: value.redistribute(placements=[Replicate()]) for name, value in model.state_dict().items()}
        model.load_state_dict(state, assign=True)
        loss_of(model, x, target).backward()
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


def expect_gradients_after(change):
    """Those of a pass after two whose gradients were not synchronised and a change of the model."""

    def two_passes(model, x, target):
        loss_of(model, x, target).backward()
        loss_of(model, x, target).backward()
        change(model)

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


@pytest.mark.parametrize("freeze", [frozen_module, frozen_parameter])
def test_sums_of_gradients_of_parameters_that_were_frozen_since(freeze):
    """On one device they are in `.grad` when the parameters are frozen, and stay there."""
    expect_gradients_after(freeze)


def test_sums_of_gradients_of_parameters_that_were_replaced_since():
    """On one device they are gone with the parameters."""

    def replace(model):
        state = {name: value.clone() for name, value in model.state_dict().items() if name.startswith("1.")}
        model.load_state_dict(state, strict=False, assign=True)

    expect_gradients_after(replace)


def given_a_parameter(model):
    model[1].extra = nn.Parameter(torch.ones(7))


def given_a_module(model):
    model[1].append(nn.Linear(7, 7))


def given_another_module(model):
    model[1][1] = nn.Linear(7, 7)


@pytest.mark.parametrize("change", [given_a_parameter, given_a_module, given_another_module])
def test_parameters_that_are_added_later_are_refused_where_ranks_would_train_their_own(change):
    def program(model, x, target):
        loss_of(model, x, target).backward()
        change(model)
        with pytest.raises(ValueError, match="parameters that the module had before fully_shard are required, but .* was added since"):
            model(x)
        with torch.no_grad():
            model(x)
        for parameter in model.parameters():
            if not weft.is_dtensor(parameter):
                parameter.requires_grad_(False)
        loss_of(model, x, target).backward()

    on_mesh(program)


def test_a_module_that_is_added_later_and_fully_sharded():
    added = nn.Linear(7, 7)

    expected = plain_model()
    expected[1].append(copy.deepcopy(added))
    loss_of(expected, X, TARGET).backward()

    def program(model, x, target):
        loss_of(model, x, target).backward()
        model.zero_grad()
        model[1].append(copy.deepcopy(added))
        weft.fully_shard(model[1][2], model[0].weight.device_mesh)
        loss_of(model, x, target).backward()
        expect_gradients(model, expected)

    on_mesh(program)


def test_a_module_inside_that_is_compiled_later():
    expected = plain_model()
    loss_of(expected, X, TARGET).backward()

    def program(model, x, target):
        model[1][1] = torch.compile(model[1][1], backend="eager")
        loss_of(model, x, target).backward()
        assert all(weft.is_dtensor(p.grad) for p in model.parameters())

    on_mesh(program)


def test_parameters_without_a_shape_are_refused():
    with pytest.raises(ValueError, match="parameters that have a shape are required, but 'weight' of a LazyLinear"):
        weft.fully_shard(nn.Sequential(nn.LazyLinear(3)), weft.init_device_mesh("cpu", (1,)))
