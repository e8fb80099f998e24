"""The examples on two processes over gloo: the losses of one device, by the plans that ranks as threads use too."""

import functools
import sys
from pathlib import Path

import pytest
import weft

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "examples/python"))
import train

STEPS = 20


@functools.cache
def expected(name):
    return train.losses_of_one_device(name, STEPS)


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["", "sequence_parallel"])
@pytest.mark.parametrize("mesh", [{"tp": 2}, {"dp": 2, "tp": 1}], ids=str)
@pytest.mark.parametrize("name", train.EXAMPLES)
def test_the_losses_are_those_of_one_device(name, mesh, sequence_parallel):
    on = weft.init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))
    plan = train.plan_file(name, sequence_parallel)
    losses, _ = train.train_on_mesh(name, train.make_model(name), on, plan, STEPS)
    assert losses == pytest.approx(expected(name), abs=1e-4, rel=0)
