"""Grouped-query attention, its keys given to the queries in each of the ways that models are written in."""

import torch
import torch.nn.functional as F
from torch import nn

from .model import BATCH, LENGTH, Model, Plan, refused_heads


def by_expand(query, key, value):
    def repeated(x):
        batch, kv_heads, length, head_dim = x.shape
        groups = query.shape[1] // kv_heads
        return x[:, :, None].expand(batch, kv_heads, groups, length, head_dim).reshape(batch, -1, length, head_dim)

    return F.scaled_dot_product_attention(query, repeated(key), repeated(value), is_causal=True)


def by_repeat(query, key, value):
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    return F.scaled_dot_product_attention(query, key, value, is_causal=True)


def by_operator(query, key, value):
    return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


def by_groups(query, key, value):
    """Without repeating: the groups are a dim of the queries; scores, mask and softmax written out."""
    batch, kv_heads, length, head_dim = key.shape
    query = query.view(batch, kv_heads, -1, length, head_dim)
    scores = torch.einsum("bkgld,bkmd->bkglm", query, key) * head_dim**-0.5
    future = torch.ones(length, length, dtype=torch.bool).triu(1)
    weights = scores.masked_fill(future, float("-inf")).softmax(-1)
    return torch.einsum("bkglm,bkmd->bkgld", weights, value).flatten(1, 2)


class Attention(nn.Module):
    def __init__(self, attend, dim, heads, kv_heads):
        super().__init__()
        self.attend, self.heads, self.kv_heads, self.head_dim = attend, heads, kv_heads, dim // heads
        self.wq, self.wo = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.wkv = nn.ModuleList(nn.Linear(dim, kv_heads * self.head_dim) for _ in range(2))

    def forward(self, x):
        query = self.wq(x).unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)
        key, value = (w(x).unflatten(-1, (self.kv_heads, self.head_dim)).transpose(1, 2) for w in self.wkv)
        mixed = self.attend(query, key, value)
        return self.wo(mixed.transpose(1, 2).flatten(-2))


def inputs(batch=2, length=6, dim=24):
    return (torch.randn(batch, length, dim),)


def cut(heads, kv_heads):
    def of(count):
        return {} if count is None else {"heads": count}

    return {
        "wq": {"style": "colwise", **of(heads)},
        "wkv.*": {"style": "colwise", **of(kv_heads)},
        "wo": {"style": "rowwise", **of(heads)},
    }


PLANS = (
    Plan("heads", cut(12, 4), {"all_reduce": 1}, refused_heads("wkv.*", "tp=3")),
    Plan("no heads", cut(None, None)),
    Plan("queries alone", {"wq": {"style": "colwise", "heads": 12}, "wo": {"style": "rowwise", "heads": 12}}),
)

# Six heads of queries share two of keys: with four ranks some have two of the queries and some one.
ODD_PLANS = (
    Plan("heads", cut(6, 2), {"all_reduce": 1}, refused_heads("wkv.*", "tp=3") | refused_heads("wq", "tp=4")),
    Plan("no heads", cut(None, None)),
)

ATTENDS = {"expand": by_expand, "repeat": by_repeat, "operator": by_operator, "groups": by_groups}
OPEN = {"dynamic_shapes": ({0: BATCH, 1: LENGTH},), "other_sizes": {"batch": 3, "length": 4}}


def made(attend, heads, kv_heads):
    return lambda: Attention(attend, 24, heads, kv_heads)


MODELS = [Model(f"grouped_query_{name}", made(attend, 12, 4), inputs, PLANS, **OPEN) for name, attend in ATTENDS.items()]
MODELS += [
    Model("grouped_query_odd_expand", made(by_expand, 6, 2), inputs, ODD_PLANS, **OPEN),
    Model("grouped_query_odd_operator", made(by_operator, 6, 2), inputs, ODD_PLANS, **OPEN),
]
