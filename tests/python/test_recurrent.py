"""Recurrent modules of torch on distributed tensors, with hidden states made inside: values and gradients of a single device."""

import copy

import pytest
import torch
from torch import nn
from weft import Replicate, Shard

torch.manual_seed(2)
X = torch.randn(5, 4, 3)  # length and samples, or samples and length
PLACEMENTS = [Replicate(), Shard(0), Shard(1)]
OPTIONS = {
    "one layer": {},
    "two layers in both directions": {"num_layers": 2, "bidirectional": True},
    "samples first": {"batch_first": True},
    "no bias": {"bias": False},
}
KINDS = {"LSTM": nn.LSTM, "GRU": nn.GRU, "RNN": nn.RNN}
MODULES = {
    f"{kind}, {name}": KINDS[kind](3, 5, **options) for kind in KINDS for name, options in OPTIONS.items()
}
MODULES["LSTM, projected"] = nn.LSTM(3, 5, proj_size=2)
MODULES["RNN, relu"] = nn.RNN(3, 5, nonlinearity="relu")
CELLS = {kind.__name__: kind(3, 5) for kind in (nn.LSTMCell, nn.GRUCell, nn.RNNCell)}


def placed(module, D, placement):
    module = copy.deepcopy(module)
    for name, parameter in list(module.named_parameters()):
        setattr(module, name, nn.Parameter(D(parameter.data, placement)))
    return module


def states(hidden):
    return list(hidden) if isinstance(hidden, tuple) else [hidden]


@pytest.mark.parametrize("weights", [Replicate(), Shard(0)], ids=str)
@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_sequences(expect_as_plain, name, placement, weights):
    def program(D):
        module, x = placed(MODULES[name], D, weights), D(X).requires_grad_()
        y, hidden = module(x)
        y.square().sum().backward()
        gradients = [x.grad, *(parameter.grad for parameter in module.parameters())]
        with torch.no_grad():
            again, later = module(x, hidden)
        return [y, *states(hidden), *gradients, again, *states(later)]

    expect_as_plain(program, placement)


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("name", CELLS)
def test_cells(expect_as_plain, name, placement):
    def program(D):
        module, x = placed(CELLS[name], D, Replicate()), D(X[0]).requires_grad_()
        hidden = module(x)
        hidden = module(x, hidden)
        states(hidden)[0].square().sum().backward()
        return [*states(hidden), x.grad, *(parameter.grad for parameter in module.parameters())]

    expect_as_plain(program, placement)
