"""Small models and the plans that make them parallel."""

import torch
from torch import nn


class Mlp(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(torch.tanh(self.up(x)))


class Attention(nn.Module):
    """Queries, keys and values of one input: three modules that want the same tensor."""

    def __init__(self, width, hidden):
        super().__init__()
        self.wq, self.wk, self.wv = (nn.Linear(width, hidden, bias=False) for _ in range(3))
        self.wo = nn.Linear(hidden, width)

    def forward(self, x):
        weights = torch.softmax(self.wq(x) @ self.wk(x).mT / 8, -1)
        return self.wo(weights @ self.wv(x))


class Block(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm, self.attention, self.mlp = nn.LayerNorm(width), Attention(width, hidden), Mlp(width, hidden)

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


class Table(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.rows, self.out = nn.Embedding(hidden, width), nn.Linear(width, hidden, bias=False)

    def forward(self, x):
        indices = (x.detach().sum(-1).abs() * 4).to(torch.int64) % self.rows.num_embeddings
        return self.out(self.rows(indices) + x)


CLASSES = {"Mlp": Mlp, "Attention": Attention, "Block": Block, "Table": Table}

PLANS = {
    "Mlp": {"up": "colwise", "down": "rowwise"},
    "Mlp sequence": {"up": "colwise", "down": {"style": "rowwise", "output": "S(1)"}},
    "Mlp replicate": {"": "replicate"},
    "Attention": {"w[qkv]": "colwise", "wo": "rowwise"},
    "Attention sequence": {"w[qkv]": "colwise", "wo": {"style": "rowwise", "output": "S(1)"}},
    "Block": {"attention.w[qkv]": "colwise", "attention.wo": "rowwise", "mlp.up": "colwise", "mlp.down": "rowwise"},
    "Block sequence": {
        "norm": "sequence",
        "attention.w[qkv]": "colwise",
        "attention.wo": {"style": "rowwise", "output": "S(1)"},
        "mlp.up": "colwise",
        "mlp.down": {"style": "rowwise", "output": "S(1)"},
    },
    "Table": {"rows": "rowwise", "out": "colwise"},
}


def make(name, *sizes):
    """The model in float64 with parameters that depend on their names alone, the same on every rank."""
    model = CLASSES[name](*sizes).double()
    with torch.no_grad():
        for number, parameter in enumerate(model.parameters()):
            generator = torch.Generator().manual_seed(number + 100)
            parameter.copy_(torch.randint(-4, 5, parameter.shape, generator=generator) / 8)
    return model
