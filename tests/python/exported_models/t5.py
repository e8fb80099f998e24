"""T5: an encoder and a decoder with cross attention, positions as a bias of the scores by buckets of distances."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from .model import BATCH, Model, Plan, refused_heads

LAYERS = 1
DIM, HIDDEN = 24, 40
VOCABULARY = 61
BUCKETS, FARTHEST = 8, 20


def buckets_of(distances, both_ways):
    """The near ones have a bucket each, those far away share them by the logarithm of the distance."""
    buckets = BUCKETS
    result = torch.zeros_like(distances)
    if both_ways:
        buckets //= 2
        result = result + (distances > 0).long() * buckets
        distances = distances.abs()
    else:
        distances = -torch.min(distances, torch.zeros_like(distances))
    near = buckets // 2
    far = near + (
        torch.log(distances.float().clamp(min=1) / near) / math.log(FARTHEST / near) * (buckets - near)
    ).to(torch.long)
    far = torch.min(far, torch.full_like(far, buckets - 1))
    return result + torch.where(distances < near, distances, far)


class Attention(nn.Module):
    def __init__(self, heads, has_bias):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))
        self.bias = nn.Embedding(BUCKETS, heads) if has_bias else None

    def scores_bias(self, length, both_ways):
        positions = torch.arange(length)
        buckets = buckets_of(positions[None] - positions[:, None], both_ways)
        return self.bias(buckets).permute(2, 0, 1).unsqueeze(0)

    def forward(self, x, states, bias):
        query, key, value = (
            layer(of).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, of in ((self.q, x), (self.k, states), (self.v, states))
        )
        scores = torch.matmul(query, key.transpose(2, 3))
        weights = F.softmax(scores if bias is None else scores + bias, dim=-1)
        return self.o(torch.matmul(weights, value).transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.wi_0, self.wi_1 = nn.Linear(DIM, HIDDEN, bias=False), nn.Linear(DIM, HIDDEN, bias=False)
        self.wo = nn.Linear(HIDDEN, DIM, bias=False)

    def forward(self, x):
        return self.wo(F.gelu(self.wi_0(x)) * self.wi_1(x))


class Block(nn.Module):
    def __init__(self, heads, is_decoder, has_bias):
        super().__init__()
        self.norms = nn.ModuleList(nn.RMSNorm(DIM, eps=1e-6) for _ in range(3 if is_decoder else 2))
        self.attention = Attention(heads, has_bias)
        self.cross = Attention(heads, False) if is_decoder else None
        self.feed_forward = FeedForward()

    def forward(self, x, bias, states=None):
        x = x + self.attention(normed := self.norms[0](x), normed, bias)
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), states, None)
        return x + self.feed_forward(self.norms[-1](x))


class T5(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.shared = nn.Embedding(VOCABULARY, DIM)
        self.encoder = nn.ModuleList(Block(heads, False, i == 0) for i in range(LAYERS))
        self.decoder = nn.ModuleList(Block(heads, True, i == 0) for i in range(LAYERS))
        self.norm, self.output = nn.RMSNorm(DIM, eps=1e-6), nn.Linear(DIM, VOCABULARY, bias=False)

    def forward(self, source, target):
        states, x = self.shared(source), self.shared(target)
        bias = self.encoder[0].attention.scores_bias(source.shape[1], True)
        for block in self.encoder:
            states = block(states, bias)
        length = target.shape[1]
        bias = self.decoder[0].attention.scores_bias(length, False)
        bias = bias + torch.full((length, length), float("-inf")).triu(1)
        for block in self.decoder:
            x = block(x, bias, states)
        return self.output(self.norm(x))


def tokens(batch=2, source=9, target=6):
    return torch.randint(VOCABULARY, (batch, source)), torch.randint(VOCABULARY, (batch, target))


def layers(heads):
    of_heads = {} if heads is None else {"heads": heads}
    return {
        "*coder.*.attention.[qkv]": {"style": "colwise", **of_heads},
        "*coder.*.attention.o": {"style": "rowwise", **of_heads},
        "decoder.*.cross.[qkv]": {"style": "colwise", **of_heads},
        "decoder.*.cross.o": {"style": "rowwise", **of_heads},
        "*coder.*.feed_forward.wi_?": "colwise",
        "*coder.*.feed_forward.wo": "rowwise",
    }


PLANS = (
    # The bias of the scores has a column per head.
    Plan("plain", {**layers(12), "*coder.0.attention.bias": "colwise"}, {"all_reduce": 5 * LAYERS}),
    Plan("whole bias", layers(12), {"all_reduce": 5 * LAYERS}),
    Plan("ends", {"shared": "rowwise", **layers(12), "output": "colwise"}, {"all_reduce": 5 * LAYERS + 2, "all_gather": 1}),
    Plan("no heads", {**layers(None), "*coder.0.attention.bias": "colwise"}),
)
ODD_PLANS = (
    Plan("plain", {"shared": "colwise", **layers(None), "*coder.0.attention.bias": "colwise"}),
    Plan("heads", layers(3), {"all_reduce": 5 * LAYERS}, refused_heads("*coder.*.attention.[qkv]", "tp=2", "tp=4", "dp=2,tp=2")),
)

OPEN = {
    "dynamic_shapes": ({0: BATCH, 1: Dim("source", max=64)}, {0: BATCH, 1: Dim("target", max=64)}),
    "other_sizes": {"batch": 3, "source": 5, "target": 7},
}

MODELS = [
    Model("t5", lambda: T5(12), tokens, PLANS, **OPEN),
    Model("t5_odd", lambda: T5(3), tokens, ODD_PLANS, **OPEN),
]
