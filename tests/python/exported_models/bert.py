"""Encoders over padded batches: BERT by hand, and one of torch's own encoder layers."""

import torch
import torch.nn.functional as F
from torch import nn

from .model import BATCH, LENGTH, Model, Plan, UNDECOMPOSED, refused_heads

LAYERS = 2
VOCABULARY = 97


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.dense = nn.Linear(dim, dim)

    def forward(self, x, mask):
        query, key, value = (
            layer(x).unflatten(-1, (self.heads, -1)).permute(0, 2, 1, 3)
            for layer in (self.query, self.key, self.value)
        )
        scores = torch.matmul(query, key.transpose(-1, -2)) / query.shape[-1] ** 0.5 + mask
        mixed = torch.matmul(F.softmax(scores, dim=-1), value)
        return self.dense(mixed.permute(0, 2, 1, 3).flatten(-2))


class Layer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.attention, self.attention_norm = SelfAttention(dim, heads), nn.LayerNorm(dim)
        self.intermediate, self.output, self.output_norm = nn.Linear(dim, hidden), nn.Linear(hidden, dim), nn.LayerNorm(dim)

    def forward(self, x, mask):
        x = self.attention_norm(x + self.attention(x, mask))
        return self.output_norm(x + self.output(F.gelu(self.intermediate(x))))


class Bert(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.words, self.types = nn.Embedding(VOCABULARY, dim, padding_idx=0), nn.Embedding(2, dim)
        self.positions = nn.Embedding(64, dim)
        self.register_buffer("position_ids", torch.arange(64)[None])
        self.norm = nn.LayerNorm(dim)
        self.layers = nn.ModuleList(Layer(dim, heads, hidden) for _ in range(LAYERS))
        self.pooler = nn.Linear(dim, dim)
        self.classifier = nn.Linear(dim, 3)

    def forward(self, tokens, attention_mask, token_types):
        mask = (1.0 - attention_mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        x = self.words(tokens) + self.positions(self.position_ids[:, : tokens.shape[1]]) + self.types(token_types)
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x, mask)
        return {"hidden": x, "logits": self.classifier(torch.tanh(self.pooler(x[:, 0])))}


class TorchEncoder(nn.Module):
    """torch's own layers keep queries, keys and values in one parameter, which no style shards."""

    def __init__(self, dim=20, heads=4, hidden=30):
        super().__init__()
        layer = nn.TransformerEncoderLayer(dim, heads, hidden, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)

    def forward(self, x, padding):
        return self.encoder(x, src_key_padding_mask=padding)


def padded(batch, length):
    """1 where there is a token: rows of different lengths."""
    return (torch.arange(length)[None] < length - torch.arange(batch)[:, None] % length).long()


def tokens(batch=3, length=8):
    mask = padded(batch, length)
    return torch.randint(1, VOCABULARY, (batch, length)) * mask, mask, torch.randint(2, (batch, length))


def activations(batch=3, length=8, dim=20):
    return torch.randn(batch, length, dim), padded(batch, length) == 0


def layers(heads):
    of_heads = {} if heads is None else {"heads": heads}
    return {
        "layers.*.attention.[qkv]*": {"style": "colwise", **of_heads},
        "layers.*.attention.dense": {"style": "rowwise", **of_heads},
        "layers.*.intermediate": "colwise",
        "layers.*.output": "rowwise",
    }


PLANS = (
    Plan("plain", {"words": "rowwise", **layers(12)}, {"all_reduce": 1 + 2 * LAYERS}),
    Plan("pooler", {**layers(12), "pooler": "colwise", "classifier": "rowwise"}, {"all_reduce": 1 + 2 * LAYERS}),
    Plan("no heads, colwise words", {"words": "colwise", **layers(None)}),
    Plan(
        "sharded inputs and outputs",
        {
            "": {
                "style": "input_output",
                "inputs": ["-> S(0)", "-> S(0)", "-> S(0)"],
                "outputs": ["-> S(0)", "-> S(0)"],
            }
        },
        {},
        counted_in=UNDECOMPOSED,
    ),
)
EVERYWHERE = ("tp=2", "tp=3", "tp=4", "dp=2,tp=2")
ODD_PLANS = (
    Plan("plain", {"words": "rowwise", **layers(None)}),
    Plan("heads", layers(5), refused=refused_heads("layers.*.attention.[qkv]*", *EVERYWHERE)),
)
ENCODER_PLANS = (
    Plan(
        "feed-forward",
        {"encoder.layers.*.linear1": "colwise", "encoder.layers.*.linear2": "rowwise"},
        {"all_reduce": LAYERS},
    ),
    Plan("sequence", {"encoder.layers.*.norm?": "sequence"}),
)

OPEN = {"dynamic_shapes": ({0: BATCH, 1: LENGTH},) * 3, "other_sizes": {"batch": 4, "length": 5}}

MODELS = [
    Model("bert", lambda: Bert(24, 12, 36), tokens, PLANS, **OPEN),
    Model("bert_odd", lambda: Bert(20, 5, 30), tokens, ODD_PLANS, **OPEN),
    Model(
        "torch_encoder",
        TorchEncoder,
        activations,
        ENCODER_PLANS,
        dynamic_shapes=({0: BATCH},) * 2,
        other_sizes={"batch": 5},
    ),
]
