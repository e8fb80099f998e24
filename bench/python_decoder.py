"""A small Llama-style decoder in plain PyTorch. The benchmark 'training' and tests/python train it."""

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.head_dim = dim // heads
        self.query, self.key, self.value, self.output = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x):
        # The number of heads is left open: a module that holds some of them, as a hand-written one does, has fewer.
        query, key, value = (
            linear(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.output(mixed.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gate, self.up = (nn.Linear(dim, 4 * dim, bias=False) for _ in range(2))
        self.down = nn.Linear(4 * dim, dim, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(dim), Attention(dim, heads)
        self.feed_forward_norm, self.feed_forward = RMSNorm(dim), FeedForward(dim)

    def forward(self, x):
        x = x + self.attention(self.attention_norm(x))
        return x + self.feed_forward(self.feed_forward_norm(x))


class Decoder(nn.Module):
    def __init__(self, vocabulary, dim, blocks, heads):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(blocks))
        self.norm = RMSNorm(dim)
        self.logits = nn.Linear(dim, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.logits(self.norm(x))


# Linear layers sharded by outputs, and those after them, sharded by inputs: a pair communicates once.
COLWISE = ("query", "key", "value", "gate", "up", "logits")
ROWWISE = ("output", "down")


def training_step(model, optimizer, inputs, targets, after_backward=lambda: None):
    """The loss, as a number."""
    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    loss.backward()
    after_backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()
