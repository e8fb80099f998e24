"""fully_shard around a model that is tensor parallel inside, on dp=2 x tp=2: the values of a single device."""

import copy

import pytest
import torch
import weft
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.distributed.tensor.placement_types import Replicate, Shard

ROWS, LENGTH, DIM, CLASSES = 6, 4, 8, 5
PLAN = {
    "norm": SequenceParallel(),
    "up": ColwiseParallel(input_layouts=Shard(1)),
    "down": RowwiseParallel(output_layouts=Replicate()),
}


class Model(nn.Module):
    """`norm` gives gradients that every tp rank has a term of; `last` stays plain, and its rows cannot be sharded evenly."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up, self.down = nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)
        self.last = nn.Linear(DIM, CLASSES)

    def forward(self, x):
        return self.last(self.down(torch.tanh(self.up(self.norm(x)))))


@pytest.fixture
def mesh():
    weft.install()
    yield init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    weft.uninstall()


@pytest.fixture
def data():
    return torch.randn(ROWS, LENGTH, DIM), torch.randn(ROWS, LENGTH, CLASSES)


def sharded(model, mesh, **options):
    parallelize_module(model, mesh["tp"], PLAN)
    parallelize_module(model, mesh["tp"], PrepareModuleInput(input_layouts=Replicate(), desired_input_layouts=Shard(1)))
    for part in (model.up, model.down):
        fully_shard(part, mesh=mesh["dp"], **options)
    return fully_shard(model, mesh=mesh["dp"], **options)


def loss_of(model, x, y):
    return nn.functional.mse_loss(model(x).float(), y)


def own_rows(mesh, data):
    dp = mesh.get_local_rank("dp")
    return [each.chunk(2)[dp] for each in data]


def global_values(tensors):
    return [each.full_tensor() for each in tensors]


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_steps_are_those_of_a_single_device(mesh, data, optimizer):
    plain = Model()
    model = sharded(copy.deepcopy(plain), mesh)
    assert all(weft.is_dtensor(parameter) for parameter in model.parameters())
    assert model.up.weight.placements[1] == Shard(0)
    optimizers = [optimizer(each.parameters(), lr=0.1) for each in (plain, model)]
    for _ in range(3):
        loss_of(plain, *data).backward()
        loss_of(model, *own_rows(mesh, data)).backward()
        torch.testing.assert_close(
            global_values(parameter.grad for parameter in model.parameters()), [parameter.grad for parameter in plain.parameters()]
        )
        norms = [nn.utils.clip_grad_norm_(each.parameters(), 0.1) for each in (plain, model)]
        torch.testing.assert_close(norms[1].full_tensor(), norms[0])
        for each in optimizers:
            each.step()
            each.zero_grad()
        torch.testing.assert_close(global_values(model.parameters()), [parameter.detach() for parameter in plain.parameters()])


def test_parameters_that_are_frozen_at_first(mesh, data):
    plain = Model()
    model = sharded(copy.deepcopy(plain), mesh)
    for frozen in (True, False):
        for each in (plain, model):
            each.zero_grad()
            each.norm.requires_grad_(not frozen)
        loss_of(plain, *data).backward()
        loss_of(model, *own_rows(mesh, data)).backward()
        for got, want in zip(model.parameters(), plain.parameters(), strict=True):
            assert (got.grad is None) == (want.grad is None)
            if want.grad is not None:
                torch.testing.assert_close(got.grad.full_tensor(), want.grad)


def test_gradients_that_are_reduced_later(mesh, data):
    plain = Model()
    model = sharded(copy.deepcopy(plain), mesh)
    for last in (False, True):
        model.set_requires_gradient_sync(last)
        loss_of(plain, *data).backward()
        loss_of(model, *own_rows(mesh, data)).backward()
    torch.testing.assert_close(
        global_values(parameter.grad for parameter in model.parameters()), [parameter.grad for parameter in plain.parameters()]
    )


def test_a_lower_precision(mesh, data):
    plain = Model()
    model = sharded(copy.deepcopy(plain), mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    loss_of(plain, *data).backward()
    loss_of(model, *own_rows(mesh, data)).backward()
    for got, want in zip(model.parameters(), plain.parameters(), strict=True):
        assert got.dtype == got.grad.dtype == torch.float32
        torch.testing.assert_close(got.grad.full_tensor(), want.grad, rtol=0.1, atol=0.02)


def test_state_dicts(mesh, data):
    plain = Model()
    model = sharded(Model(), mesh)
    with torch.no_grad():
        values = {
            name: weft.distribute_tensor(plain.state_dict()[name], parameter.device_mesh, parameter.placements)
            for name, parameter in model.named_parameters()
        }
    model.load_state_dict(values, assign=True)
    torch.testing.assert_close(model(own_rows(mesh, data)[0]), plain(own_rows(mesh, data)[0]))
    loss_of(plain, *data).backward()
    loss_of(model, *own_rows(mesh, data)).backward()
    for each in (plain, model):
        torch.optim.SGD(each.parameters(), lr=0.1).step()
    torch.testing.assert_close(
        get_model_state_dict(model, options=StateDictOptions(full_state_dict=True)), dict(plain.state_dict())
    )
    torch.testing.assert_close(model(own_rows(mesh, data)[0]), plain(own_rows(mesh, data)[0]))
