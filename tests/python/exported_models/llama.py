"""Llama without a cache: RMS norms, rotary positions, grouped queries, SwiGLU."""

import torch
import torch.nn.functional as F
from torch import nn

from .model import BATCH, LENGTH, Model, Plan, refused_heads

LAYERS = 2
VOCABULARY = 101


class RmsNorm(nn.Module):
    """Written out, as in models older than torch's own."""

    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(dim)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotated(x, positions, speeds):
    """x [batch, heads, length, head_dim], the pairs (i, i + head_dim / 2) turned by their angles at the positions."""
    angles = positions[:, None].to(speeds.dtype) * speeds
    cosines, sines = torch.cat([angles, angles], -1).cos(), torch.cat([angles, angles], -1).sin()
    first, second = x.chunk(2, -1)
    return x * cosines + torch.cat([-second, first], -1) * sines


class Attention(nn.Module):
    def __init__(self, dim, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, dim // heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def split_heads(self, x, heads):
        return x.view(x.shape[0], x.shape[1], heads, self.head_dim).transpose(1, 2)

    def forward(self, x, positions, speeds):
        query = rotated(self.split_heads(self.wq(x), self.heads), positions, speeds)
        key = rotated(self.split_heads(self.wk(x), self.kv_heads), positions, speeds)
        value = self.split_heads(self.wv(x), self.kv_heads)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.wo(mixed.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1, self.w3 = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, dim, heads, kv_heads, hidden, norm):
        super().__init__()
        self.attention_norm, self.attention = norm(dim), Attention(dim, heads, kv_heads)
        self.ffn_norm, self.feed_forward = norm(dim), FeedForward(dim, hidden)

    def forward(self, x, positions, speeds):
        x = x + self.attention(self.attention_norm(x), positions, speeds)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    def __init__(self, dim=48, heads=12, kv_heads=4, hidden=72, norm=nn.RMSNorm):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, dim)
        self.layers = nn.ModuleList(Block(dim, heads, kv_heads, hidden, norm) for _ in range(LAYERS))
        self.norm = norm(dim)
        self.output = nn.Linear(dim, VOCABULARY, bias=False)
        head_dim = dim // heads
        speeds = 10000.0 ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        self.register_buffer("speeds", speeds, persistent=False)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1])
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x, positions, self.speeds)
        return self.output(self.norm(x))


def tokens(batch=2, length=9):
    return (torch.randint(VOCABULARY, (batch, length)),)


def layers(heads, kv_heads, **output):
    def cut(style, count, **others):
        return {"style": style, **({} if count is None else {"heads": count}), **others}

    return {
        "layers.*.attention.wq": cut("colwise", heads),
        "layers.*.attention.w[kv]": cut("colwise", kv_heads),
        "layers.*.attention.wo": cut("rowwise", heads, **output),
        "layers.*.feed_forward.w[13]": "colwise",
        "layers.*.feed_forward.w2": {"style": "rowwise", **output},
    }


def sequence(heads, kv_heads):
    return {
        "tok_embeddings": {"style": "rowwise", "output": "S(1)"},
        "layers.*.*_norm": "sequence",
        "norm": "sequence",
        **layers(heads, kv_heads, output="S(1)"),
        "output": "colwise",
    }


def plans(heads, kv_heads, refused_on=()):
    refused = refused_heads("layers.*.attention.w[kv]", *refused_on)
    ends = {"tok_embeddings": "rowwise", "output": "colwise"}
    return (
        Plan("plain", {**ends, **layers(heads, kv_heads)}, {"all_reduce": 1 + 2 * LAYERS, "all_gather": 1}, refused),
        Plan("layers alone", layers(heads, kv_heads), {"all_reduce": 2 * LAYERS}, refused),
        Plan(
            "sequence",
            sequence(heads, kv_heads),
            {"reduce_scatter": 1 + 2 * LAYERS, "all_gather": 2 * LAYERS + 2},
            refused,
        ),
        Plan("no heads", {**ends, **layers(None, None)}),
        Plan(
            "sharded logits",
            {**ends, **layers(heads, kv_heads), "": {"style": "output", "outputs": ["-> S(2)"]}},
            {"all_reduce": 1 + 2 * LAYERS},
            refused,
        ),
    )


OPEN = {"dynamic_shapes": ({0: BATCH, 1: LENGTH},), "other_sizes": {"batch": 3, "length": 5}}

MODELS = [
    Model("llama", Llama, tokens, plans(12, 4, ["tp=3"]), **OPEN),
    # As many keys as queries, and norms written out: the counts hold on all meshes.
    Model("llama_many_keys", lambda: Llama(kv_heads=12, norm=RmsNorm), tokens, plans(12, 12), **OPEN),
    # Fewer keys than four ranks: every rank computes them. 50 is divided by no mesh.
    Model("llama_few_keys", lambda: Llama(kv_heads=2, hidden=50), tokens, plans(12, 2, ["tp=3"]), **OPEN),
]
