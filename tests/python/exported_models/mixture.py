"""Mixtures of experts. Routing is by the two best experts; every expert sees every token, so that no shape depends on data."""

import torch
import torch.nn.functional as F
from torch import nn

from .model import BATCH, LENGTH, Model, Plan

EXPERTS, BEST = 5, 2
DIM, HIDDEN = 20, 28


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.gate, self.down = nn.Linear(DIM, HIDDEN), nn.Linear(DIM, HIDDEN), nn.Linear(HIDDEN, DIM)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class ListOfExperts(nn.Module):
    """Each expert a module, its share by comparing the chosen numbers."""

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(DIM, EXPERTS, bias=False)
        self.experts = nn.ModuleList(Expert() for _ in range(EXPERTS))

    def forward(self, x):
        weights, chosen = self.router(x).softmax(-1).topk(BEST, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        result = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            share = torch.where(chosen == i, weights, 0.0).sum(-1, keepdim=True)
            result = result + share * expert(x)
        return result


class StackedExperts(nn.Module):
    """All experts in one parameter, dispatched and combined by one_hot and einsum; also how evenly they were chosen."""

    def __init__(self):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(DIM), nn.Linear(DIM, EXPERTS)
        self.up = nn.Parameter(torch.randn(EXPERTS, DIM, HIDDEN) * DIM**-0.5)
        self.down = nn.Parameter(torch.randn(EXPERTS, HIDDEN, DIM) * HIDDEN**-0.5)
        self.output = nn.Linear(DIM, DIM)

    def forward(self, x):
        scores = F.softmax(self.router(self.norm(x)), dim=-1)
        weights, chosen = torch.topk(scores, BEST)
        dispatch = F.one_hot(chosen, EXPERTS).to(x.dtype)
        combine = torch.einsum("blk,blke->ble", weights, dispatch)
        hidden = F.relu(torch.einsum("bld,edh->belh", x, self.up))
        experts = torch.einsum("belh,ehd->beld", hidden, self.down)
        mixed = torch.einsum("beld,ble->bld", experts, combine)
        evenness = (dispatch.mean((0, 1, 2)) * scores.mean((0, 1))).sum() * EXPERTS
        return x + self.output(mixed), evenness


class ScatteredExperts(ListOfExperts):
    """The shares are scattered into a row per token; experts that were not chosen have a share of zero."""

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weights, chosen = self.router(tokens).topk(BEST, dim=-1)
        shares = torch.zeros(tokens.shape[0], EXPERTS).scatter(1, chosen, weights.softmax(-1))
        outputs = torch.stack([expert(tokens) for expert in self.experts], dim=1)
        return torch.bmm(shares.unsqueeze(1), outputs).squeeze(1).view_as(x)


def inputs(batch=2, length=6):
    return (torch.randn(batch, length, DIM),)


LISTED_PLANS = (
    Plan(
        "each expert sharded",
        {"experts.*.up": "colwise", "experts.*.gate": "colwise", "experts.*.down": "rowwise"},
    ),
    Plan("router", {"router": "colwise"}),
    Plan("sharded tokens", {"": {"style": "input_output", "inputs": ["-> S(1)"], "outputs": ["-> S(1)"]}}, {}),
)
STACKED_PLANS = (
    Plan("router and output", {"router": "colwise", "output": "colwise"}),
    Plan("sequence", {"norm": "sequence", "output": {"style": "rowwise", "output": "S(1)"}}),
)

OPEN = {"dynamic_shapes": ({0: BATCH, 1: LENGTH},), "other_sizes": {"batch": 3, "length": 5}}

MODELS = [
    Model("mixture_list", ListOfExperts, inputs, LISTED_PLANS, **OPEN),
    Model("mixture_stacked", StackedExperts, inputs, STACKED_PLANS, **OPEN),
    Model("mixture_scattered", ScatteredExperts, inputs, LISTED_PLANS[:2], **OPEN),
]
