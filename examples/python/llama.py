"""A Llama-style decoder in plain PyTorch: RMS norms, rotary positions, grouped-query attention, SwiGLU. The plans
../plans/llama.json and llama_sequence.json make it parallel; examples/models/llama.h is the same model in C++."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class LlamaSizes:
    vocabulary: int = 64
    length: int = 16  # of the longest sequence
    dim: int = 32
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2  # of keys and values, each used by heads / kv_heads heads of queries
    hidden: int = 96


def rotations(length, head_dim, base=10000.0):
    """Cosines and sines [length, 1, head_dim] of the angles by which the pairs (i, i + head_dim / 2) are turned."""
    speeds = base ** (-torch.arange(0, head_dim, 2).float() / head_dim)
    angles = torch.outer(torch.arange(length).float(), speeds)
    angles = torch.cat([angles, angles], -1)[:, None]
    return angles.cos(), angles.sin()


def rotated(x, cosines, sines):
    """x [batch, sequence, heads, head_dim], each position turned by its angles."""
    first, second = x.chunk(2, -1)
    return x * cosines + torch.cat([-second, first], -1) * sines


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = sizes.heads, sizes.kv_heads, sizes.dim // sizes.heads
        self.wq = nn.Linear(sizes.dim, self.heads * self.head_dim, bias=False)
        self.wk = nn.Linear(sizes.dim, self.kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(sizes.dim, self.kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(self.heads * self.head_dim, sizes.dim, bias=False)

    def forward(self, x, cosines, sines):
        query = rotated(self.wq(x).unflatten(-1, (self.heads, self.head_dim)), cosines, sines)
        key = rotated(self.wk(x).unflatten(-1, (self.kv_heads, self.head_dim)), cosines, sines)
        value = self.wv(x).unflatten(-1, (self.kv_heads, self.head_dim))
        query, key, value = (t.transpose(1, 2) for t in (query, key, value))
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.wo(mixed.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.w1 = nn.Linear(sizes.dim, sizes.hidden, bias=False)
        self.w2 = nn.Linear(sizes.hidden, sizes.dim, bias=False)
        self.w3 = nn.Linear(sizes.dim, sizes.hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.attention_norm = nn.RMSNorm(sizes.dim, eps=1e-5)
        self.attention = Attention(sizes)
        self.ffn_norm = nn.RMSNorm(sizes.dim, eps=1e-5)
        self.feed_forward = FeedForward(sizes)

    def forward(self, x, cosines, sines):
        x = x + self.attention(self.attention_norm(x), cosines, sines)
        return x + self.feed_forward(self.ffn_norm(x))


class Llama(nn.Module):
    """Tokens [batch, sequence] to the logits [batch, sequence, vocabulary] of the tokens that follow."""

    def __init__(self, sizes=LlamaSizes()):
        super().__init__()
        self.tok_embeddings = nn.Embedding(sizes.vocabulary, sizes.dim)
        self.layers = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.dim, eps=1e-5)
        self.output = nn.Linear(sizes.dim, sizes.vocabulary, bias=False)
        cosines, sines = rotations(sizes.length, sizes.dim // sizes.heads)
        self.register_buffer("cosines", cosines, persistent=False)
        self.register_buffer("sines", sines, persistent=False)

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = layer(x, self.cosines[:length], self.sines[:length])
        return self.output(self.norm(x))
