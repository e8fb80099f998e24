"""A diffusion U-Net of one level: time as sines, group norms, attention over pixels, a skip joined after upsampling."""

import math

import torch
import torch.nn.functional as F
from torch import nn

from .model import BATCH, Model, OF_FIXED_BATCH, Plan, refused_heads

CHANNELS, TIME_DIM, HEADS = 12, 16, 6


def time_embedding(times):
    half = TIME_DIM // 2
    speeds = torch.exp(-math.log(10000.0) * torch.arange(half, dtype=torch.float32) / half)
    angles = times[:, None].float() * speeds[None]
    return torch.cat([angles.sin(), angles.cos()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, channels_in, channels):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(4, channels_in), nn.Conv2d(channels_in, channels, 3, padding=1)
        self.of_time = nn.Linear(TIME_DIM * 2, channels)
        self.norm2, self.conv2 = nn.GroupNorm(4, channels), nn.Conv2d(channels, channels, 3, padding=1)
        self.shortcut = nn.Conv2d(channels_in, channels, 1) if channels_in != channels else nn.Identity()

    def forward(self, x, time):
        y = self.conv1(F.silu(self.norm1(x))) + self.of_time(F.silu(time))[:, :, None, None]
        return self.conv2(F.silu(self.norm2(y))) + self.shortcut(x)


class PixelAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(3, CHANNELS)
        self.to_q, self.to_k, self.to_v = (nn.Linear(CHANNELS, CHANNELS, bias=False) for _ in range(3))
        self.to_out = nn.Linear(CHANNELS, CHANNELS)

    def forward(self, x):
        batch, channels, height, width = x.shape
        pixels = self.norm(x).reshape(batch, channels, height * width).transpose(1, 2)
        query, key, value = (
            layer(pixels).view(batch, height * width, HEADS, channels // HEADS).transpose(1, 2)
            for layer in (self.to_q, self.to_k, self.to_v)
        )
        mixed = F.scaled_dot_product_attention(query, key, value)
        mixed = self.to_out(mixed.transpose(1, 2).reshape(batch, height * width, channels))
        return x + mixed.transpose(1, 2).reshape(batch, channels, height, width)


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time1, self.time2 = nn.Linear(TIME_DIM, TIME_DIM * 2), nn.Linear(TIME_DIM * 2, TIME_DIM * 2)
        self.stem = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.down = ResBlock(CHANNELS, CHANNELS)
        self.shrink = nn.Conv2d(CHANNELS, CHANNELS, 3, stride=2, padding=1)
        self.middle, self.attention = ResBlock(CHANNELS, CHANNELS), PixelAttention()
        self.grow = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1)
        self.up = ResBlock(2 * CHANNELS, CHANNELS)
        self.norm, self.output = nn.GroupNorm(4, CHANNELS), nn.Conv2d(CHANNELS, 3, 3, padding=1)

    def forward(self, images, times):
        time = self.time2(F.silu(self.time1(time_embedding(times))))
        skip = self.down(self.stem(images), time)
        x = self.attention(self.middle(self.shrink(skip), time))
        x = self.grow(F.interpolate(x, scale_factor=2.0, mode="nearest"))
        x = self.up(torch.cat([x, skip], dim=1), time)
        return self.output(F.silu(self.norm(x)))


def images(batch=12):
    return torch.randn(batch, 3, 8, 8), torch.randint(1000, (batch,))


def attention(heads):
    of_heads = {} if heads is None else {"heads": heads}
    return {
        "attention.to_[qkv]": {"style": "colwise", **of_heads},
        "attention.to_out": {"style": "rowwise", **of_heads},
    }


TIME = {"time1": "colwise", "time2": "rowwise"}
PLANS = (
    Plan("linears", {**TIME, **attention(6)}, {"all_reduce": 2}, refused_heads("attention.to_[qkv]", "tp=4")),
    Plan("no heads", {**TIME, **attention(None), "*.of_time": "colwise"}),
    Plan("channels", {"*.norm2": {"style": "sequence", "dim": 1}, "stem": {"style": "output", "outputs": ["-> S(1)"]}}),
    Plan("rows of the image", {"middle": {"style": "input", "inputs": ["-> S(2)", None]}, "grow": {"style": "input", "inputs": ["-> S(3)"]}}),
    Plan("batch", {"": {"style": "input_output", "inputs": ["-> S(0)", "-> S(0)"], "outputs": ["-> S(0)"]}}, {}, counted_in=OF_FIXED_BATCH),
)

MODELS = [Model("unet", Unet, images, PLANS, dynamic_shapes=({0: BATCH}, {0: BATCH}), other_sizes={"batch": 5})]
