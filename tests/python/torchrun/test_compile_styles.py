"""Styles of parallel modules and their hooks in one graph, on two processes: the values and gradients of eager mode."""

import os
import sys

import pytest
import torch
import weft
from torch import nn
from weft import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    Replicate,
    RowwiseParallel,
    SequenceParallel,
    Shard,
)

sys.path.insert(0, os.path.dirname(__file__))
from compiled import assert_compiles_as_eager, assert_same

DIM = 8


class Mixer(nn.Module):
    """Takes arguments by position and by keyword, and returns a tuple."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x, scale=None, *, shift=None):
        y = self.down(torch.relu(self.up(self.norm(x))))
        y = y if scale is None else y * scale
        return (y if shift is None else y + shift), x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.mixer = Mixer()

    def forward(self, x, scale, shift):
        y, z = self.mixer(x, scale, shift=shift)
        return y + 1, z * 2


class Doubled(weft.ParallelStyle):
    """A user's style: the parameters are sharded, and the result is doubled."""

    def _apply(self, module, mesh):
        def shard(name, module, mesh):
            for key, parameter in list(module.named_parameters(recurse=False)):
                module.register_parameter(key, nn.Parameter(weft.distribute_tensor(parameter, mesh, [Shard(0)])))

        def enter(module, inputs, mesh):
            return tuple(weft.from_local(x, mesh, [Replicate()]) for x in inputs)

        def leave(module, outputs, mesh):
            return outputs.redistribute(placements=[Replicate()]).to_local() * 2

        return weft.distribute_module(module, mesh, shard, enter, leave)


LINEARS = {"mixer.up": ColwiseParallel(), "mixer.down": RowwiseParallel()}
PLANS = {
    "inputs": {
        **LINEARS,
        "mixer": PrepareModuleInput(
            input_layouts=(Shard(0), None), desired_input_layouts=(Replicate(), None), use_local_output=True
        ),
    },
    "keywords": {
        **LINEARS,
        "mixer": PrepareModuleInput(
            input_kwarg_layouts={"shift": Replicate()}, desired_input_kwarg_layouts={"shift": Replicate()}, use_local_output=True
        ),
    },
    "outputs": {
        **LINEARS,
        "mixer": PrepareModuleOutput(output_layouts=(Replicate(), Replicate()), desired_output_layouts=(Shard(0), Shard(1))),
    },
    "both": {
        **LINEARS,
        "mixer": PrepareModuleInputOutput(
            input_layouts=(Replicate(), None),
            desired_input_layouts=(Replicate(), None),
            use_local_input=True,
            output_layouts=(Replicate(), Replicate()),
            desired_output_layouts=(Shard(0), Replicate()),
            use_local_output=False,
        ),
    },
    "subclass": {"mixer.up": Doubled(), "mixer.down": Doubled()},
}


def inputs_of(name):
    rows = 2 if name == "inputs" else 4
    return torch.randn(rows, DIM), torch.randn(DIM), torch.randn(DIM)


@pytest.mark.parametrize("name", PLANS)
def test_a_style_is_in_the_graph(mesh, name):
    model = weft.parallelize_module(Model(), mesh, PLANS[name])
    assert_compiles_as_eager(model, inputs_of(name), list(model.parameters()))


def test_the_functions_of_distribute_module_are_in_the_graph(mesh):
    def shard(name, module, mesh):
        if isinstance(module, nn.Linear):
            module.weight = nn.Parameter(weft.distribute_tensor(module.weight, mesh, [Shard(0)]))

    def enter(module, inputs, mesh):
        return (weft.from_local(inputs[0], mesh, [Shard(0)]), *inputs[1:])

    def leave(module, outputs, mesh):
        return outputs.redistribute(placements=[Shard(0)]).to_local()

    model = weft.distribute_module(nn.Sequential(nn.Linear(DIM, DIM), nn.Tanh()), mesh, shard, enter, leave)
    assert_compiles_as_eager(model, (torch.randn(2, DIM),), list(model.parameters()))


def test_inference_mode(mesh):
    model = weft.parallelize_module(Model(), mesh, {**LINEARS, "mixer.norm": SequenceParallel(sequence_dim=0)})
    inputs = torch.randn(4, DIM), torch.randn(DIM), torch.randn(DIM)
    with torch.inference_mode():
        want = model(*inputs)
        for backend in ("eager", "aot_eager"):
            torch._dynamo.reset()
            assert_same(torch.compile(model, backend=backend, fullgraph=True)(*inputs), want)


def test_styles_of_torch_after_install(mesh):
    weft.install()
    try:
        from torch.distributed.tensor import Replicate as TorchReplicate
        from torch.distributed.tensor import Shard as TorchShard
        from torch.distributed.tensor import parallel

        plan = {
            "mixer.norm": parallel.SequenceParallel(sequence_dim=0),
            "mixer.up": parallel.ColwiseParallel(input_layouts=TorchShard(0)),
            "mixer.down": parallel.RowwiseParallel(output_layouts=TorchReplicate()),
        }
        model = parallel.parallelize_module(Model(), mesh, plan)
        inputs = torch.randn(4, DIM), torch.randn(DIM), torch.randn(DIM)
        assert_compiles_as_eager(model, inputs, list(model.parameters()))
    finally:
        weft.uninstall()
