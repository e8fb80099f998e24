"""A vision transformer: patches by a convolution, a class token in front, learned positions."""

import torch
import torch.nn.functional as F
from torch import nn

from .model import BATCH, Model, OF_FIXED_BATCH, Plan

LAYERS = 2
DIM, HEADS, HIDDEN = 24, 12, 50
PATCHES = 12  # of 4 x 4, in images of 12 x 16


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def forward(self, x):
        batch, length, dim = x.shape
        qkv = self.qkv(x).reshape(batch, length, 3, HEADS, dim // HEADS).permute(2, 0, 3, 1, 4)
        query, key, value = qkv.unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return self.proj(mixed.transpose(1, 2).reshape(batch, length, dim))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(DIM), Attention(), nn.LayerNorm(DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, HIDDEN), nn.GELU(), nn.Dropout(0.1), nn.Linear(HIDDEN, DIM))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, DIM, kernel_size=4, stride=4)
        self.class_token = nn.Parameter(torch.randn(1, 1, DIM))
        self.positions = nn.Parameter(torch.randn(1, PATCHES + 1, DIM) * 0.02)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(DIM), nn.Linear(DIM, 7)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


def images(batch=12):
    return (torch.randn(batch, 3, 12, 16),)


def layers(**output):
    return {
        "blocks.*.attention.qkv": {"style": "colwise", "parts": 3, "heads": HEADS},
        "blocks.*.attention.proj": {"style": "rowwise", "heads": HEADS, **output},
        "blocks.*.mlp.0": "colwise",
        "blocks.*.mlp.3": {"style": "rowwise", **output},
    }


PLANS = (
    Plan("plain", layers(), {"all_reduce": 2 * LAYERS}),
    Plan(
        "sequence",
        {
            "blocks.*.norm?": "sequence",
            **layers(output="S(1)"),
            "norm": "sequence",
            "head": {"style": "input", "inputs": ["-> R"]},
        },
    ),
    Plan("patches by channels", {"patches": {"style": "output", "outputs": ["-> S(1)"]}, **layers()}),
    Plan("batch", {"": {"style": "input_output", "inputs": ["-> S(0)"], "outputs": ["-> S(0)"]}}, {}, counted_in=OF_FIXED_BATCH),
    Plan("head", {"head": "colwise"}, {"all_gather": 1}),
)

MODELS = [Model("vit", Vit, images, PLANS, dynamic_shapes=({0: BATCH},), other_sizes={"batch": 5})]
