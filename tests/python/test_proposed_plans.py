"""What `weft plan` proposes for layers that models of other libraries are made of: the collectives of a plan that is written by
hand, and the numbers of the model."""

import json
import os
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.dirname(__file__))
from exported_models.exporting import named_inputs, outputs_of
from exported_models.sharding import command, in_process

WORDS, DIM, HEADS, HIDDEN, LAYERS = 32, 16, 4, 32, 2


class ScaledWords(nn.Embedding):
    """Gemma's embedding."""

    def __init__(self):
        super().__init__(WORDS, DIM)
        self.register_buffer("scale", torch.tensor(DIM**0.5))

    def forward(self, words):
        return super().forward(words) * self.scale.to(self.weight.dtype)


def attended(q, k, v):
    q, k, v = (x.view(*x.shape[:2], HEADS, -1).transpose(1, 2) for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)


class SlicedAttention(nn.Module):
    """Phi-3's attention: slices of one layer's output are queries, keys and values."""

    def __init__(self, linear=nn.Linear):
        super().__init__()
        self.qkv, self.out = linear(DIM, 3 * DIM), linear(DIM, DIM)

    def forward(self, x):
        y = self.qkv(x)
        return self.out(attended(y[..., :DIM], y[..., DIM : 2 * DIM], y[..., 2 * DIM :]))


class FeedForward(nn.Module):
    """Phi-3's: one layer for the gate and what it is multiplied with."""

    def __init__(self, linear=nn.Linear):
        super().__init__()
        self.gate_up, self.down = linear(DIM, 2 * HIDDEN), linear(HIDDEN, DIM)

    def forward(self, x):
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)


class Decoder(nn.Module):
    def __init__(self, words=nn.Embedding, is_tied=True, linear=nn.Linear, feed_forward=FeedForward):
        super().__init__()
        self.words = words() if words is ScaledWords else words(WORDS, DIM)
        self.layers = nn.ModuleList(
            nn.ModuleList([nn.LayerNorm(DIM), SlicedAttention(linear), nn.LayerNorm(DIM), feed_forward()])
            for _ in range(LAYERS)
        )
        self.output = nn.Linear(DIM, WORDS, bias=False)
        if is_tied:
            self.output.weight = self.words.weight

    def forward(self, words):
        x = self.words(words)
        for norm, attention, other_norm, feed_forward in self.layers:
            x = x + attention(norm(x))
            x = x + feed_forward(other_norm(x))
        return self.output(x)


MODELS = {
    "scaled_words": lambda: Decoder(words=ScaledWords),
    "untied": lambda: Decoder(is_tied=False),
}


def exported(name, is_strict, folder):
    torch.manual_seed(1)
    model = MODELS[name]()
    inputs = (torch.randint(WORDS, (2, 6)),)
    program = torch.export.export(model, inputs, strict=is_strict)
    torch.export.save(program, folder / "model.pt2")
    result = command("plan", folder / "model.pt2", "--mesh", "tp=2", "--json")
    assert result.returncode == 0, result.stderr
    return model, program, inputs, json.loads(result.stdout)


@pytest.mark.parametrize("is_strict", [False, True], ids=["exported", "strict"])
@pytest.mark.parametrize("name", MODELS)
def test_a_pair_of_layers_takes_one_all_reduce(name, is_strict, tmp_path):
    _, program, inputs, proposed = exported(name, is_strict, tmp_path)
    outputs, summary = in_process(tmp_path / "model.pt2", "tp=2", proposed["plan"], named_inputs(program, inputs))
    for actual, expected in zip(outputs, outputs_of(program, inputs), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)
    collectives = {kind: count for kind, count in summary["collectives"].items() if count}
    assert collectives == {"all_reduce": 1 + 2 * LAYERS, "all_gather": 1}, proposed
    # Norms and biases of rowwise layers are replicated.
    assert proposed["replicated"] < 0.1 * proposed["parameters"], proposed
