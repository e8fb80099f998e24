"""PyTorch's styles in weft.parallelize_module, without weft.install()."""

import pytest
import torch
import torch.distributed.tensor as of_torch
import weft
from torch import nn
from torch.distributed.tensor import parallel
from weft._parallel.torch_styles import style_from_torch

SHARD, REPLICATE = of_torch.Shard(0), of_torch.Replicate()
KEYWORDS = {"input_kwarg_layouts": {"x": SHARD}, "desired_input_kwarg_layouts": {"x": REPLICATE}}
INPUT = {"input_layouts": (SHARD, None), "desired_input_layouts": (REPLICATE, None), **KEYWORDS}
OUTPUT = {"output_layouts": REPLICATE, "desired_output_layouts": SHARD, "use_local_output": False}


@pytest.mark.parametrize(
    "name, options",
    [
        ("ColwiseParallel", {"input_layouts": SHARD, "output_layouts": REPLICATE, "use_local_output": False}),
        ("RowwiseParallel", {"input_layouts": REPLICATE, "output_layouts": SHARD, "use_local_output": False}),
        ("SequenceParallel", {"sequence_dim": 2, "use_local_output": True}),
        ("PrepareModuleInput", {**INPUT, "use_local_output": True}),
        ("PrepareModuleOutput", OUTPUT),
        ("PrepareModuleInputOutput", {**INPUT, "use_local_input": True, **OUTPUT}),
    ],
)
def test_every_style_becomes_wefts(name, options):
    assert style_from_torch(getattr(parallel, name)(**options)) == getattr(weft, name)(**options)


def test_other_objects_are_no_styles_of_pytorch():
    class Own(parallel.ColwiseParallel):
        pass

    for other in (Own(), weft.ColwiseParallel(), "colwise", None, object()):
        assert style_from_torch(other) is None


def test_a_model_is_parallel_by_pytorchs_styles():
    x = torch.randn(3, 4)
    plain = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    want = plain(x)

    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
        model.load_state_dict(plain.state_dict())
        weft.parallelize_module(model, mesh, {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()})
        assert weft.placements(model[0].weight) == (of_torch.Shard(0),)
        torch.testing.assert_close(model(x), want)
        one = weft.parallelize_module(nn.Linear(4, 8), mesh, parallel.ColwiseParallel())
        assert weft.placements(one.weight) == (weft.Shard(0),)

    weft.run_on_ranks(2, program)


def test_a_style_derived_from_pytorchs_needs_install():
    class Own(parallel.ColwiseParallel):
        pass

    class Applied(parallel.ParallelStyle):
        def _apply(self, module, device_mesh):
            module.weight = nn.Parameter(weft.distribute_tensor(module.weight, device_mesh, [weft.Shard(0)]))
            return module

    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        with pytest.raises(TypeError, match=r"one that changes a style of torch needs weft.install\(\)"):
            weft.parallelize_module(nn.Linear(4, 8), mesh, {"": Own()})
        module = weft.parallelize_module(nn.Linear(4, 8), mesh, Applied())
        assert weft.is_dtensor(module.weight) and not weft.is_dtensor(module.bias)

    weft.run_on_ranks(2, program)
