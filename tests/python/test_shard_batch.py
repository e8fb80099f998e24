"""shard_batch: a program that gives every rank the same batch, of which each computes its rows."""

import copy

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F

torch.manual_seed(4)
TOKENS = torch.randint(12, (4, 5))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(12, 8), nn.Linear(8, 12)

    def forward(self, tokens, labels=None, positions=None):
        logits = self.head(self.embed(tokens) + positions[None, :, None])
        return {"loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


def step(model):
    outputs = model(TOKENS, labels=TOKENS, positions=torch.arange(5.0))
    outputs["loss"].backward()
    return outputs, {name: parameter.grad for name, parameter in model.named_parameters()}


def test_every_rank_computes_its_rows():
    plain = Model()
    expected, expected_gradients = step(copy.deepcopy(plain))

    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        model = weft.parallelize_module(copy.deepcopy(plain), mesh, {"embed": "rowwise", "head": "colwise"})
        outputs, gradients = step(weft.shard_batch(model, mesh))
        assert weft.to_local(outputs["logits"]).shape == (2, 5, 6)
        assert weft.to_local(outputs["loss"]).item() == pytest.approx(expected["loss"].item())
        torch.testing.assert_close(outputs["logits"].full_tensor(), expected["logits"])
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient.full_tensor(), expected_gradients[name])

    weft.run_on_ranks(4, program)


def test_the_mesh_must_have_the_dim():
    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        with pytest.raises(ValueError, match=r"a dim of the mesh is required, one of \('tp',\), but got 'dp'"):
            weft.shard_batch(Model(), mesh)

    weft.run_on_ranks(2, program)
