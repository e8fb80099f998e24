"""Training of the examples, interrupted and resumed on another mesh: the losses of one device that was never interrupted."""

import copy
import re
import sys
from pathlib import Path

import pytest
import torch
import weft

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/python"))
import train
from gpt2 import Gpt2, Gpt2Sizes
from llama import Llama, LlamaSizes

STEPS, STOP = 12, 10
# Heads that two and three ranks can divide.
MODELS = {
    "llama": lambda: Llama(LlamaSizes(dim=48, heads=6, kv_heads=6)),
    "gpt2": lambda: Gpt2(Gpt2Sizes(dim=48, heads=6)),
}


def plan_of(name):
    """The example's, for six heads."""
    return weft.ParallelPlan.parse(re.sub(r'"heads": \d', '"heads": 6', train.plan_file(name, False).read_text()))


BLOCKS = {"llama": "layers", "gpt2": "h"}


def shard_fully(name, model, mesh):
    for block in getattr(model, BLOCKS[name]):
        weft.fully_shard(block, mesh, "dp")
    weft.fully_shard(model, mesh, "dp")


def losses_on(name, model, where, folder, resumes):
    """Of the steps up to STOP, after which it saves, or of those from there on."""
    mesh_dims, is_fully_sharded = where

    def run(rank):
        mesh = weft.init_device_mesh("cpu", tuple(mesh_dims.values()), mesh_dim_names=tuple(mesh_dims))
        own = copy.deepcopy(model)
        if "tp" in mesh_dims:
            weft.parallelize_module(own, mesh, plan_of(name))
        if is_fully_sharded:
            shard_fully(name, own, mesh)
        optimizer = train.make_optimizer(own)
        state = {"model": own, "optimizer": optimizer, "step": 0}
        if resumes:
            weft.load(state, folder)
        losses = []
        for step in range(state["step"], STEPS if resumes else STOP):
            batch = train.distribute_batch(train.EXAMPLES[name].batch(step), mesh)
            losses.append(train.training_step(own, optimizer, *batch).item())
        if not resumes:
            weft.save(state | {"step": STOP}, folder)
        return losses

    return weft.run_on_ranks(torch.Size(mesh_dims.values()).numel(), run, timeout=60)[0]


TENSOR_PARALLEL, BOTH = ({"tp": 3}, False), ({"dp": 2, "tp": 2}, True)
FULLY_SHARDED, FOUR = ({"dp": 2}, True), ({"dp": 4}, True)
CHANGES = {
    "llama": [
        (({"dp": 2, "tp": 2}, False), TENSOR_PARALLEL),
        (FULLY_SHARDED, TENSOR_PARALLEL),
        (TENSOR_PARALLEL, FULLY_SHARDED),
        (BOTH, TENSOR_PARALLEL),
        (TENSOR_PARALLEL, BOTH),
        (FOUR, BOTH),
    ],
    "gpt2": [(({"dp": 2, "tp": 2}, False), TENSOR_PARALLEL), (FULLY_SHARDED, TENSOR_PARALLEL), (BOTH, FULLY_SHARDED)],
}


def named(where):
    dims, is_fully_sharded = where
    return ",".join(f"{name}={size}" for name, size in dims.items()) + (" fully sharded" if is_fully_sharded else "")


@pytest.mark.parametrize(
    "name,first,then",
    [
        pytest.param(name, first, then, id=f"{name} {named(first)} to {named(then)}")
        for name, changes in CHANGES.items()
        for first, then in changes
    ],
)
def test_training_goes_on_on_another_mesh(tmp_path, name, first, then):
    torch.manual_seed(1)
    model = MODELS[name]()
    one_device = copy.deepcopy(model)
    optimizer = train.make_optimizer(one_device)
    expected = [train.training_step(one_device, optimizer, *train.EXAMPLES[name].batch(step)).item() for step in range(STEPS)]
    before = losses_on(name, model, first, tmp_path / "step_10", False)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    after = losses_on(name, model, then, tmp_path / "step_10", True)
    assert before + after == pytest.approx(expected, abs=1e-4, rel=0)
