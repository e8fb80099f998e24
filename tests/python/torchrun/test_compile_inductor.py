"""The example models compiled by Inductor, on two processes: the losses and gradients of eager mode, within 1e-5."""

import os
import sys
from pathlib import Path

import pytest
import torch
import weft

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples/python"))
sys.path.insert(0, os.path.dirname(__file__))
import train  # noqa: E402
from compiled import assert_same, step  # noqa: E402


def one_layer(model):
    """Layers are alike, and Inductor takes seconds for each."""
    for name, child in model.named_children():
        if isinstance(child, torch.nn.ModuleList):
            setattr(model, name, child[:1])
    return model


@pytest.mark.parametrize("name", ["gpt2", "vit"])  # a decoder block like those of llama is in test_compile.py
def test_an_example_is_one_graph(name):
    mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model = weft.parallelize_module(one_layer(train.make_model(name)), mesh, train.plan_file(name, sequence_parallel=True))
    batch = train.distribute_batch(train.EXAMPLES[name].batch(0), mesh)

    def loss_of(x, classes):
        return train.loss_of(model(x).full_tensor(), classes.full_tensor())

    parameters = list(model.parameters())
    want = step(loss_of, batch, parameters)
    assert_same(step(torch.compile(loss_of, fullgraph=True), batch, parameters), want, 1e-5)
