"""The `generate` of a parallelised module: a loop around its forward, in which plain tensors count as replicated."""

import copy

import pytest
import torch
import weft
from torch import nn

torch.manual_seed(3)
TOKENS = torch.randint(16, (2, 5))
PLAN = {"embed": "rowwise", "head": "colwise"}


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)

    def forward(self, tokens):
        return self.head(self.embed(tokens).cumsum(1))

    def generate(self, tokens, steps=4):
        seen = []
        for _ in range(steps):
            tokens = torch.cat([tokens, self(tokens)[:, -1:].argmax(-1)], 1)
            seen.append(tokens[:, -1].tolist())
        return {"tokens": tokens, "seen": seen}


class Wrapped(Decoder):
    def generate(self, tokens):
        return super().generate(tokens, steps=2)


def on_two_ranks(program):
    return weft.run_on_ranks(2, lambda rank: program(weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))))


@pytest.mark.parametrize("kind", [Decoder, Wrapped])
def test_plain_tokens_give_plain_tokens(kind):
    plain = kind()
    want = plain.generate(TOKENS)

    def program(mesh):
        return weft.parallelize_module(copy.deepcopy(plain), mesh, PLAN).generate(TOKENS)

    for got in on_two_ranks(program):
        assert not weft.is_dtensor(got["tokens"])
        assert torch.equal(got["tokens"], want["tokens"])
        assert got["seen"] == want["seen"]


def test_distributed_tokens_give_distributed_tokens():
    plain = Decoder()
    want = plain.generate(TOKENS)["tokens"]

    def program(mesh):
        model = weft.parallelize_module(copy.deepcopy(plain), mesh, PLAN)
        return model.generate(weft.distribute_tensor(TOKENS, mesh, [weft.Replicate()]))["tokens"].full_tensor()

    for got in on_two_ranks(program):
        assert torch.equal(got, want)


def test_plain_tokens_are_an_error_where_the_plan_has_no_such_contract():
    def program(mesh):
        model = weft.parallelize_module(Decoder(), mesh, PLAN, replicate_plain=False)
        with pytest.raises(ValueError, match="cannot be mixed"):
            model.generate(TOKENS)
        with pytest.raises(RuntimeError, match="a replicated tensor is required"):
            weft.distribute_tensor(TOKENS, mesh, [weft.Shard(0)]).tolist()

    on_two_ranks(program)


def test_a_plain_module_of_the_class_is_as_ever():
    on_two_ranks(lambda mesh: weft.parallelize_module(Decoder(), mesh, PLAN))
    assert not weft.is_dtensor(Decoder().generate(TOKENS)["tokens"])
