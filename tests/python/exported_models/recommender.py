"""A recommender: several tables, one of them of bags, products of all pairs of features, and layers above them."""

import torch
from torch import nn

from .model import BATCH, Model, Plan

ROWS = (101, 53, 7)
DIM = 10
DENSE = 13


class Recommender(nn.Module):
    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, DIM) for rows in ROWS)
        self.bag = nn.EmbeddingBag(67, DIM, mode="sum")
        self.bottom = nn.Sequential(nn.Linear(DENSE, 22), nn.ReLU(), nn.Linear(22, DIM), nn.ReLU())
        features = len(ROWS) + 2
        self.register_buffer("pairs", torch.tril_indices(features, features, -1))
        self.top = nn.Sequential(
            nn.Linear(DIM + features * (features - 1) // 2, 30), nn.ReLU(), nn.Linear(30, 14), nn.ReLU(), nn.Linear(14, 1)
        )

    def forward(self, dense, categories, visited):
        bottom = self.bottom(dense)
        features = [table(categories[:, i]) for i, table in enumerate(self.tables)]
        features = torch.stack([bottom, *features, self.bag(visited)], dim=1)
        products = torch.bmm(features, features.transpose(1, 2))
        products = products[:, self.pairs[0], self.pairs[1]]
        return torch.sigmoid(self.top(torch.cat([bottom, products], dim=1))).squeeze(-1)


def inputs(batch=6):
    categories = torch.stack([torch.randint(rows, (batch,)) for rows in ROWS], dim=1)
    return torch.randn(batch, DENSE), categories, torch.randint(67, (batch, 4))


PLANS = (
    Plan(
        "layers",
        {"bottom.0": "colwise", "bottom.2": "rowwise", "top.0": "colwise", "top.2": "rowwise"},
        {"all_reduce": 2},
    ),
    Plan("tables by rows", {"tables.*": "rowwise"}),
    Plan("tables by columns", {"tables.*": "colwise", "top.0": "colwise", "top.2": "rowwise"}),
    Plan(
        "batch",
        {"": {"style": "input_output", "inputs": ["-> S(0)"] * 3, "outputs": ["-> S(0)"]}, "tables.0": "rowwise"},
    ),
)

MODELS = [
    Model("recommender", Recommender, inputs, PLANS, dynamic_shapes=({0: BATCH},) * 3, other_sizes={"batch": 5})
]
