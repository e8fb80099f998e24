"""A vision transformer in plain PyTorch: patches by a convolution, learned positions, pre-norm blocks, and classes told of the
mean over all patches. ../plans/vit.json and vit_sequence.json make it parallel."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class VitSizes:
    image: int = 16  # pixels of a side
    patch: int = 4
    dim: int = 32
    layers: int = 2
    heads: int = 4
    classes: int = 4


class Patches(nn.Module):
    """Images [batch, 3, image, image] to [batch, patches, dim]."""

    def __init__(self, sizes):
        super().__init__()
        self.projection = nn.Conv2d(3, sizes.dim, kernel_size=sizes.patch, stride=sizes.patch)
        self.positions = nn.Parameter(0.1 * torch.randn((sizes.image // sizes.patch) ** 2, sizes.dim))

    def forward(self, images):
        return self.projection(images).flatten(2).transpose(1, 2) + self.positions


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.heads, self.head_dim = sizes.heads, sizes.dim // sizes.heads
        self.qkv = nn.Linear(sizes.dim, 3 * sizes.dim)
        self.proj = nn.Linear(sizes.dim, sizes.dim)

    def forward(self, x):
        query, key, value = (
            part.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1)
        )
        return self.proj(F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.fc1 = nn.Linear(sizes.dim, 4 * sizes.dim)
        self.fc2 = nn.Linear(4 * sizes.dim, sizes.dim)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Block(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(sizes.dim), Attention(sizes)
        self.norm2, self.mlp = nn.LayerNorm(sizes.dim), FeedForward(sizes)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    """Images [batch, 3, image, image] to the logits [batch, classes]."""

    def __init__(self, sizes=VitSizes()):
        super().__init__()
        self.patches = Patches(sizes)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.LayerNorm(sizes.dim)
        self.head = nn.Linear(sizes.dim, sizes.classes)

    def forward(self, images):
        x = self.patches(images)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))
