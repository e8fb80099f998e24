"""torch.amp.GradScaler over distributed parameters: scales, skipped steps and parameters are those of a single device."""

import copy
import os
import sys

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F
from weft import Replicate, Shard

sys.path.insert(0, os.path.dirname(__file__))
from placed_model import placed, plain

torch.manual_seed(2)
MODEL = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
X, Y = torch.randn(5, 6), torch.randn(5, 4)
LAYOUTS = {"0.weight": Shard(0), "0.bias": Shard(0), "2.weight": Shard(1)}

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "AdamW, loop": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False),
    "AdamW, foreach": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "AdamW, fused": lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
}


def train(model, optimizer, to_input, clips, overflows, autocast=False):
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=2)
    x, y = to_input(X), to_input(Y)
    seen = []
    for step in range(4):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = F.mse_loss(model(x), y)
        if step == 1 and overflows:
            loss = loss * float("inf")
        scaler.scale(loss).backward()
        if clips:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
        seen.append(torch.tensor(scaler.get_scale()))
    return seen + [plain(p) for p in model.parameters()], scaler.state_dict()


@pytest.mark.parametrize("overflows", [False, True])
@pytest.mark.parametrize("clips", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_a_single_device(name, clips, overflows):
    model = copy.deepcopy(MODEL)
    expected = train(model, OPTIMIZERS[name](model.parameters()), lambda t: t, clips, overflows)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        parallel = placed(MODEL, LAYOUTS, mesh)
        to_input = lambda t: weft.distribute_tensor(t, mesh, [Replicate()])  # noqa: E731
        result = train(parallel, OPTIMIZERS[name](parallel.parameters()), to_input, clips, overflows)
        torch.testing.assert_close(result[0], expected[0], rtol=1e-4, atol=1e-5)
        assert result[1] == expected[1]

    weft.run_on_ranks(2, rank_program)


def test_with_autocast():
    model = copy.deepcopy(MODEL)
    expected, _ = train(model, OPTIMIZERS["SGD"](model.parameters()), lambda t: t, False, True, autocast=True)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        parallel = placed(MODEL, LAYOUTS, mesh)
        to_input = lambda t: weft.distribute_tensor(t, mesh, [Replicate()])  # noqa: E731
        result, _ = train(parallel, OPTIMIZERS["SGD"](parallel.parameters()), to_input, False, True, autocast=True)
        torch.testing.assert_close(result, expected, rtol=2**-5, atol=2**-7)  # bfloat16 has 8 bits

    weft.run_on_ranks(2, rank_program)


def test_an_overflow_of_one_rank_skips_the_step_on_all():
    values = torch.ones(4, 2)
    values[0, 0] = float("inf")

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        weight = nn.Parameter(weft.distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)]))
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        optimizer = torch.optim.SGD([weight], lr=0.1)
        scaler.scale((weight * weft.distribute_tensor(values, mesh, [Shard(0)])).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 2.0
        torch.testing.assert_close(weight.detach().to_local(), torch.ones(2, 2))

    weft.run_on_ranks(2, rank_program)


def test_one_number_is_reduced_for_all_gradients():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        model = placed(MODEL, LAYOUTS, mesh)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        scaler.scale(model(weft.distribute_tensor(X, mesh, [Replicate()])).sum()).backward()
        with weft.comm_debug() as counted:
            scaler.unscale_(optimizer)
        assert [(row.collective, row.calls, row.bytes) for row in counted.rows] == [("all_reduce", 1, 4)]

    weft.run_on_ranks(2, rank_program)


@pytest.mark.parametrize("options", [{"foreach": False}, {"foreach": True}, {"fused": True}], ids=str)
def test_parameters_may_be_on_several_meshes_and_plain(options):
    def train_three(weights):
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=1)
        optimizer = torch.optim.AdamW(weights, lr=0.1, **options)
        for _ in range(3):
            optimizer.zero_grad()
            for weight in weights:
                scaler.scale(weight.square().sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        return [plain(weight) for weight in weights], scaler.get_scale()

    expected = train_three([nn.Parameter(X[:4].clone()) for _ in range(3)])

    def rank_program(rank):
        meshes = [weft.init_device_mesh("cpu", (2,), mesh_dim_names=(name,)) for name in ("tp", "ep")]
        weights = [nn.Parameter(weft.distribute_tensor(X[:4], mesh, [Shard(0)])) for mesh in meshes]
        result = train_three([*weights, nn.Parameter(X[:4].clone())])
        torch.testing.assert_close(result, expected)

    weft.run_on_ranks(2, rank_program)
