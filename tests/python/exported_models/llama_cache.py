"""Decoding with a cache of keys and values: a buffer that is written to, an input that is, or an input and an output."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.export import Dim

from .llama import FeedForward, layers, rotated
from .model import Model, Plan, refused_heads

LAYERS = 2
VOCABULARY = 53
BATCH = 2
DIM, HEADS, KV_HEADS, HEAD_DIM = 48, 12, 4, 4
CAPACITY = 11


class Attention(nn.Module):
    """The cache is what `store` makes of it: (cache, new, positions) to all keys or values so far."""

    def __init__(self, store):
        super().__init__()
        self.store = store
        self.wq, self.wo = nn.Linear(DIM, DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.wk = nn.Linear(DIM, KV_HEADS * HEAD_DIM, bias=False)
        self.wv = nn.Linear(DIM, KV_HEADS * HEAD_DIM, bias=False)

    def forward(self, x, positions, speeds, cache):
        query = rotated(self.wq(x).unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2), positions, speeds)
        key = rotated(self.wk(x).unflatten(-1, (KV_HEADS, HEAD_DIM)).transpose(1, 2), positions, speeds)
        value = self.wv(x).unflatten(-1, (KV_HEADS, HEAD_DIM)).transpose(1, 2)
        key, value = self.store(cache[0], key, positions), self.store(cache[1], value, positions)
        seen = torch.arange(key.shape[2]) <= positions[:, None]
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=seen, enable_gqa=True)
        return self.wo(mixed.transpose(1, 2).flatten(-2)), (key, value)


class Block(nn.Module):
    def __init__(self, store):
        super().__init__()
        self.attention_norm, self.attention = nn.RMSNorm(DIM, eps=1e-5), Attention(store)
        self.ffn_norm, self.feed_forward = nn.RMSNorm(DIM, eps=1e-5), FeedForward(DIM, 72)

    def forward(self, x, positions, speeds, cache):
        mixed, cache = self.attention(self.attention_norm(x), positions, speeds, cache)
        x = x + mixed
        return x + self.feed_forward(self.ffn_norm(x)), cache


class Decoder(nn.Module):
    def __init__(self, store):
        super().__init__()
        self.tok_embeddings = nn.Embedding(VOCABULARY, DIM)
        self.layers = nn.ModuleList(Block(store) for _ in range(LAYERS))
        self.norm = nn.RMSNorm(DIM, eps=1e-5)
        self.output = nn.Linear(DIM, VOCABULARY, bias=False)
        self.register_buffer("speeds", 10000.0 ** (-torch.arange(0, HEAD_DIM, 2).float() / HEAD_DIM), persistent=False)

    def decode(self, tokens, positions, caches):
        x, new_caches = self.tok_embeddings(tokens), []
        for layer, cache in zip(self.layers, caches):
            x, cache = layer(x, positions, self.speeds, cache)
            new_caches.append(cache)
        return self.output(self.norm(x)), new_caches


class BufferDecoder(Decoder):
    """The buffers go out too, so that a comparison sees what was written."""

    def __init__(self, store):
        super().__init__(store)
        for i in range(LAYERS):
            for name in ("keys", "values"):
                self.register_buffer(f"{name}_{i}", torch.randn(BATCH, KV_HEADS, CAPACITY, HEAD_DIM))

    def caches(self):
        return [(getattr(self, f"keys_{i}"), getattr(self, f"values_{i}")) for i in range(LAYERS)]

    def forward(self, tokens, positions):
        logits, _ = self.decode(tokens, positions, self.caches())
        return logits, [tuple(part.clone() for part in cache) for cache in self.caches()]


class InputDecoder(Decoder):
    def forward(self, tokens, positions, caches):
        return self.decode(tokens, positions, caches)


class WrittenInputDecoder(Decoder):
    def forward(self, tokens, positions, caches):
        logits, _ = self.decode(tokens, positions, caches)
        return logits, caches[0][0] + 1


def by_index_put(cache, new, positions):
    cache[:, :, positions] = new
    return cache


def by_index_copy(cache, new, positions):
    return cache.index_copy_(2, positions, new)


def by_slice(cache, new, positions):
    """A prompt: from the first position on."""
    cache[:, :, : new.shape[2]].copy_(new)
    return cache


def by_cat(cache, new, positions):
    return torch.cat([cache, new], 2)


def prompt(length=5):
    return torch.randint(VOCABULARY, (BATCH, length)), torch.arange(length)


def one_token():
    return torch.randint(VOCABULARY, (BATCH, 1)), torch.tensor([7])


def with_caches(past=4, length=2):
    shape = (BATCH, KV_HEADS, past, HEAD_DIM)
    caches = [(torch.randn(shape), torch.randn(shape)) for _ in range(LAYERS)]
    return torch.randint(VOCABULARY, (BATCH, length)), torch.arange(past, past + length), caches


def with_whole_caches():
    tokens, positions = prompt(3)
    return tokens, positions + 2, with_caches(past=CAPACITY)[2]


ENDS = {"tok_embeddings": "rowwise", "output": "colwise"}
REFUSED = refused_heads("layers.*.attention.w[kv]", "tp=3")


def plans(moves_of_caches):
    """A cache that goes out is gathered: `moves_of_caches` says how often, or None where it may be done in several ways."""
    known = None if moves_of_caches is None else {"all_reduce": 1 + 2 * LAYERS, "all_gather": 1 + moves_of_caches}
    return (
        Plan("plain", {**ENDS, **layers(HEADS, KV_HEADS)}, known, REFUSED),
        Plan("no heads", {**ENDS, **layers(None, None)}),
        Plan("feed-forward alone", {
            "layers.*.feed_forward.w[13]": "colwise", "layers.*.feed_forward.w2": "rowwise",
        }, {"all_reduce": LAYERS}),
    )


PAST = Dim("past", min=2, max=64)
OF_CACHES = [({2: PAST}, {2: PAST})] * LAYERS

MODELS = [
    Model("llama_cache_index_put", lambda: BufferDecoder(by_index_put), one_token, plans(None)),
    Model("llama_cache_index_copy", lambda: BufferDecoder(by_index_copy), prompt, plans(None)),
    Model("llama_cache_slice", lambda: BufferDecoder(by_slice), prompt, plans(None)),
    Model(
        "llama_cache_inputs",
        lambda: InputDecoder(by_cat),
        with_caches,
        plans(2 * LAYERS),
        dynamic_shapes=({}, {}, OF_CACHES),
        other_sizes={"past": 9},
    ),
    Model("llama_cache_written_inputs", lambda: WrittenInputDecoder(by_index_put), with_whole_caches, plans(None)),
]
