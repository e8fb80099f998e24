"""torch.optim.swa_utils over distributed parameters: averages are those of a single device, laid out as the parameters."""

import copy
import os
import sys

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_avg_fn, get_ema_multi_avg_fn, get_swa_multi_avg_fn, update_bn
from weft import Replicate, Shard

sys.path.insert(0, os.path.dirname(__file__))
from placed_model import placed, plain

torch.manual_seed(2)
MODEL = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 4))
X, Y = torch.randn(5, 6), torch.randn(5, 4)
LAYOUTS = {"0.weight": Shard(0), "0.bias": Shard(0), "3.weight": Shard(1)}
AVERAGES = {
    "mean": {},
    "mean of lists": {"multi_avg_fn": get_swa_multi_avg_fn()},
    "exponential": {"avg_fn": get_ema_avg_fn(0.9)},
    "exponential of lists": {"multi_avg_fn": get_ema_multi_avg_fn(0.9)},
    "with buffers": {"use_buffers": True},
    "exponential of lists with buffers": {"multi_avg_fn": get_ema_multi_avg_fn(0.9), "use_buffers": True},
}


def averaged(model, to_input, options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = AveragedModel(model, **options)
    schedule = SWALR(optimizer, swa_lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        F.mse_loss(model(to_input(X)), to_input(Y)).backward()
        optimizer.step()
        schedule.step()
        average.update_parameters(model)
    if not options.get("use_buffers"):
        update_bn([to_input(X), to_input(X * 2)], average)
    average.eval()
    state = {name: plain(value) for name, value in average.state_dict().items()}
    return average, [state, plain(average(to_input(X)))]


@pytest.mark.parametrize("layout", [Replicate(), Shard(0)], ids=str)
@pytest.mark.parametrize("name", AVERAGES)
def test_averages(name, layout):
    _, expected = averaged(copy.deepcopy(MODEL), lambda t: t, AVERAGES[name])

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        average, result = averaged(placed(MODEL, LAYOUTS, mesh), lambda t: weft.distribute_tensor(t, mesh, [layout]), AVERAGES[name])
        for parameter_name, parameter in average.module.named_parameters():
            assert parameter.placements == (LAYOUTS.get(parameter_name, Replicate()),)
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)

    weft.run_on_ranks(2, rank_program)
