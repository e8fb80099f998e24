"""Recurrent networks: torch's own LSTM, and cells of linear layers unrolled over the sequence."""

import torch
from torch import nn

from .model import BATCH, Model, Plan

VOCABULARY = 43
DIM, HIDDEN = 12, 20
# torch 2.11 exports them with wrong sizes, which is refused.
KNOWS_STATES = not torch.__version__.startswith("2.11.")


class TorchLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, DIM)
        self.lstm = nn.LSTM(DIM, HIDDEN, num_layers=2, batch_first=True, bidirectional=True)
        self.hidden, self.output = nn.Linear(2 * HIDDEN, 30), nn.Linear(30, VOCABULARY)

    def forward(self, tokens):
        x, states = self.lstm(self.embedding(tokens))
        return self.output(torch.relu(self.hidden(x))), *(states if KNOWS_STATES else ())


class Cell(nn.Module):
    """The gates in, forget, new and out are four parts of one layer."""

    def __init__(self):
        super().__init__()
        self.of_input, self.of_state = nn.Linear(DIM, 4 * HIDDEN), nn.Linear(HIDDEN, 4 * HIDDEN, bias=False)

    def forward(self, x, state, cell):
        gate_in, forget, new, out = (self.of_input(x) + self.of_state(state)).chunk(4, -1)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(gate_in) * torch.tanh(new)
        return torch.sigmoid(out) * torch.tanh(cell), cell


class UnrolledLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.output = Cell(), nn.Linear(HIDDEN, 5)

    def forward(self, x):
        state = cell = x.new_zeros(x.shape[0], HIDDEN)
        states = []
        for step in x.unbind(1):
            state, cell = self.cell(step, state, cell)
            states.append(state)
        return self.output(torch.stack(states, 1)), (state, cell)


def tokens(batch=3, length=5):
    return (torch.randint(VOCABULARY, (batch, length)),)


def activations(batch=3, length=4):
    return (torch.randn(batch, length, DIM),)


TORCH_PLANS = (
    Plan("head", {"hidden": "colwise", "output": "rowwise"}, {"all_reduce": 1}),
    Plan("ends", {"embedding": "rowwise", "output": "colwise"}, {"all_reduce": 1, "all_gather": 1}),
)
LENGTH = 4
UNROLLED_PLANS = (
    Plan("gates", {"cell.of_*": {"style": "colwise", "parts": 4}}),
    Plan("output", {"output": "colwise"}, {"all_gather": 1}),
    Plan("rowwise", {"cell.of_state": "rowwise"}, {"all_reduce": LENGTH}),
)

OPEN = {"dynamic_shapes": ({0: BATCH},), "other_sizes": {"batch": 5}}

MODELS = [
    Model("lstm_torch", TorchLstm, tokens, TORCH_PLANS, **OPEN),
    Model("lstm_unrolled", UnrolledLstm, activations, UNROLLED_PLANS, **OPEN),
]
