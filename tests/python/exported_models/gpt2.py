"""GPT-2: queries, keys and values of one layer, learned positions, an output layer tied to the embedding."""

import torch
import torch.nn.functional as F
from torch import nn

from .model import BATCH, LENGTH, Model, Plan, refused_heads

LAYERS = 2
VOCABULARY = 101


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.c_attn, self.c_proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        batch, length, dim = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, dim // self.heads).transpose(1, 2)
            for part in self.c_attn(x).split(dim, dim=2)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, length, dim))


class Block(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(dim), Attention(dim, heads), nn.LayerNorm(dim)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(dim, hidden), "c_proj": nn.Linear(hidden, dim)})

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        hidden = F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate="tanh")
        return x + self.mlp["c_proj"](hidden)


class Gpt2(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, dim), nn.Embedding(64, dim)
        self.h = nn.ModuleList(Block(dim, heads, hidden) for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, VOCABULARY, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.wte(tokens) + self.wpe(positions)
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def tokens(batch=3, length=10):
    return (torch.randint(VOCABULARY, (batch, length)),)


def attention(heads, **output):
    of_heads = {} if heads is None else {"heads": heads}
    return {
        "h.*.attn.c_attn": {"style": "colwise", "parts": 3, **of_heads},
        "h.*.attn.c_proj": {"style": "rowwise", **of_heads, **output},
        "h.*.mlp.c_fc": "colwise",
        "h.*.mlp.c_proj": {"style": "rowwise", **output},
    }


def sequence(heads):
    return {
        "wte": {"style": "rowwise", "output": "S(1)"},
        "h.*.ln_?": "sequence",
        "ln_f": "sequence",
        **attention(heads, output="S(1)"),
        "lm_head": "colwise",
    }


PLANS = (
    # The embedding is summed up, the logits are gathered.
    Plan(
        "plain",
        {"wte": "rowwise", **attention(12), "lm_head": "colwise"},
        {"all_reduce": 1 + 2 * LAYERS, "all_gather": 1},
    ),
    Plan("layers alone", attention(12), {"all_reduce": 2 * LAYERS}),
    Plan("sequence", sequence(12), {"reduce_scatter": 1 + 2 * LAYERS, "all_gather": 2 * LAYERS + 2}),
    Plan(
        "sharded logits",
        {"wte": "rowwise", **attention(12), "lm_head": "colwise", "": {"style": "output", "outputs": ["-> S(2)"]}},
        {"all_reduce": 1 + 2 * LAYERS},
    ),
)

# No mesh divides five heads evenly: a plan that names the heads is refused, without names shards may divide a head.
ODD_PLANS = (
    Plan("heads", attention(5), refused=refused_heads("h.*.attn.c_attn", "tp=2", "tp=3", "tp=4", "dp=2,tp=2")),
    Plan("no heads", {"wte": "rowwise", **attention(None), "lm_head": "colwise"}),
    Plan("sequence, no heads", sequence(None)),
    Plan("colwise embedding", {"wpe": "colwise", "h.0.mlp.c_fc": "colwise", "h.0.mlp.c_proj": "rowwise"}),
)

OPEN = {"dynamic_shapes": ({0: BATCH, 1: LENGTH},), "other_sizes": {"batch": 2, "length": 7}}

MODELS = [
    Model("gpt2", lambda: Gpt2(24, 12, 48), tokens, PLANS, **OPEN),
    Model("gpt2_odd", lambda: Gpt2(20, 5, 33), tokens, ODD_PLANS, **OPEN),
]
