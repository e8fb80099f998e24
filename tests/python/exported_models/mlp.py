"""Feed-forward blocks with residuals, of 2-D and 3-D inputs."""

import torch
import torch.nn.functional as F
from torch import nn

from .model import BATCH, LENGTH, Model, Plan, UNDECOMPOSED

BLOCKS = 2


class Block(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Mlp(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.blocks = nn.ModuleList(Block(dim, hidden) for _ in range(BLOCKS))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def plans(sequence_dim):
    cut = f"S({sequence_dim})"
    return (
        Plan("pairs", {"blocks.*.up": "colwise", "blocks.*.down": "rowwise"}, {"all_reduce": BLOCKS}),
        Plan("gathered", {"blocks.*.up": {"style": "colwise", "output": "R"}}, {"all_gather": BLOCKS}),
        Plan("rowwise alone", {"blocks.*.down": "rowwise"}, {"all_reduce": BLOCKS}),
        Plan(
            "sequence",
            {
                "blocks.*.norm": {"style": "sequence", "dim": sequence_dim},
                "blocks.*.up": "colwise",
                "blocks.*.down": {"style": "rowwise", "output": cut},
            },
            # What goes out is gathered once more.
            {"all_gather": BLOCKS + 1, "reduce_scatter": BLOCKS},
        ),
        Plan(
            "sharded output",
            {
                "blocks.*.up": "colwise",
                "blocks.0.down": "rowwise",
                "blocks.1.down": {"style": "rowwise", "output": "S(-1)"},
                "": {"style": "output", "outputs": ["-> S(-1)"]},
            },
            {"all_reduce": 1, "reduce_scatter": 1},
        ),
        Plan(
            "sharded input",
            {"": {"style": "input_output", "inputs": ["-> S(0)"], "outputs": ["-> S(0)"]}},
            {},
            counted_in=UNDECOMPOSED,
        ),
    )


def flat(batch=6, dim=16):
    return (torch.randn(batch, dim),)


def deep(batch=3, length=5, dim=20):
    return (torch.randn(batch, length, dim),)


MODELS = [
    Model("mlp", lambda: Mlp(16, 48), flat, plans(0), dynamic_shapes=({0: BATCH},), other_sizes={"batch": 5}),
    # 33 and 20 are divided by neither 2 nor 3 nor 4 ranks alike.
    Model(
        "mlp_odd",
        lambda: Mlp(20, 33),
        deep,
        plans(1),
        dynamic_shapes=({0: BATCH, 1: LENGTH},),
        other_sizes={"batch": 2, "length": 7},
    ),
]
