"""The examples: each model, made parallel by its plan, has the losses of one device, on any mesh."""

import copy
import functools
import math
import sys
from pathlib import Path

import pytest
import weft

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/python"))
import train
from gpt2 import Gpt2, Gpt2Sizes

STEPS = 20
MESHES = [{"tp": 2}, {"tp": 4}, {"dp": 2, "tp": 2}]


@functools.cache
def expected(name):
    return train.losses_of_one_device(name, STEPS)


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["", "sequence_parallel"])
@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("name", train.EXAMPLES)
def test_the_losses_are_those_of_one_device(name, mesh, sequence_parallel):
    model = train.make_model(name)

    def on_rank(rank):
        on = weft.init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))
        plan = train.plan_file(name, sequence_parallel)
        return train.train_on_mesh(name, copy.deepcopy(model), on, plan, STEPS)[0]

    assert expected(name)[-1] < 0.8 * expected(name)[0], "it must learn something"
    for losses in weft.run_on_ranks(math.prod(mesh.values()), on_rank):
        assert losses == pytest.approx(expected(name), abs=1e-4, rel=0)


def test_dropout_is_the_same_on_any_mesh():
    model = Gpt2(Gpt2Sizes(dropout=0.2))

    def losses(mesh, sequence_parallel):
        def on_rank(rank):
            weft.manual_seed(3)
            on = weft.init_device_mesh("cpu", tuple(mesh.values()), mesh_dim_names=tuple(mesh))
            plan = train.plan_file("gpt2", sequence_parallel)
            return train.train_on_mesh("gpt2", copy.deepcopy(model), on, plan, steps=10)[0]

        return weft.run_on_ranks(math.prod(mesh.values()), on_rank)[0]

    alone = losses({"tp": 1}, False)
    for mesh in MESHES:
        for sequence_parallel in (False, True):
            assert losses(mesh, sequence_parallel) == pytest.approx(alone, abs=1e-4, rel=0)
    assert alone != pytest.approx(expected("gpt2")[:10], abs=1e-2), "it must drop something"


def test_the_program_prints_losses_and_communication(capsys):
    assert train.main(["--model", "llama", "--mesh", "dp=1,tp=2", "--sequence-parallel", "--steps", "2"]) == 0
    printed = capsys.readouterr().out
    assert "llama on mesh(dp=1,tp=2), llama_sequence.json" in printed
    assert "reduce_scatter" in printed and [line.split()[0] for line in printed.splitlines()[2:4]] == ["0", "1"]


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["--mesh", "tp"], "a mesh of dp (shards the batch) and tp (shards the model) is required, as in dp=2,tp=2, but got 'tp'"),
        (["--mesh", "dp=2"], "the plans are for the mesh dim tp, but got 'dp=2'"),
        (["--steps", "0"], "--steps must be at least 1, but got 0"),
        (["--plan", "x.json", "--sequence-parallel"], "give one of them"),
        (["--model", "rnn"], "invalid choice: 'rnn'"),
    ],
)
def test_the_program_says_what_is_wrong(arguments, message, capsys):
    with pytest.raises(SystemExit):
        train.main(arguments)
    assert message in capsys.readouterr().err
