"""A GPT-2-style decoder in plain PyTorch: learned positions, layer norms, queries, keys and values of one layer, and an
output layer tied to the embedding. ../plans/gpt2.json and gpt2_sequence.json make it parallel; examples/models/gpt2.h is the
same model in C++."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Gpt2Sizes:
    vocabulary: int = 64
    length: int = 16  # of the longest sequence
    dim: int = 32
    layers: int = 2
    heads: int = 4
    dropout: float = 0.0


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.heads, self.head_dim = sizes.heads, sizes.dim // sizes.heads
        self.c_attn = nn.Linear(sizes.dim, 3 * sizes.dim)
        self.c_proj = nn.Linear(sizes.dim, sizes.dim)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x):
        query, key, value = (
            part.unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2) for part in self.c_attn(x).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.dropout(self.c_proj(mixed.transpose(1, 2).flatten(-2)))


class FeedForward(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.c_fc = nn.Linear(sizes.dim, 4 * sizes.dim)
        self.c_proj = nn.Linear(4 * sizes.dim, sizes.dim)
        self.dropout = nn.Dropout(sizes.dropout)

    def forward(self, x):
        return self.dropout(self.c_proj(F.gelu(self.c_fc(x), approximate="tanh")))


class Block(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(sizes.dim), Attention(sizes)
        self.ln_2, self.mlp = nn.LayerNorm(sizes.dim), FeedForward(sizes)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """Tokens [batch, sequence] to the logits [batch, sequence, vocabulary] of the tokens that follow."""

    def __init__(self, sizes=Gpt2Sizes()):
        super().__init__()
        self.wte = nn.Embedding(sizes.vocabulary, sizes.dim)
        self.wpe = nn.Embedding(sizes.length, sizes.dim)
        self.dropout = nn.Dropout(sizes.dropout)
        self.h = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.ln_f = nn.LayerNorm(sizes.dim)
        self.lm_head = nn.Linear(sizes.dim, sizes.vocabulary, bias=False)
        for embedding in (self.wte, self.wpe):
            nn.init.normal_(embedding.weight, std=sizes.dim**-0.5)
        self.lm_head.weight = self.wte.weight
        self.register_buffer("positions", torch.arange(sizes.length), persistent=False)

    def forward(self, tokens):
        x = self.dropout(self.wte(tokens) + self.wpe(self.positions[: tokens.shape[1]]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))
