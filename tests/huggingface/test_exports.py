"""Models of transformers, exported as they are, go through `weft plan`, `explain`, `shard` and `run` and compute what one device
computes."""

import json

import pytest
import torch
from architectures import ARCHITECTURES
from exporting import exported

from exported_models.sharding import by_command, command, in_process

MESH = "tp=2"
STRICT = ["Llama", "Gemma", "GPT-2", "Phi-3", "Mixtral", "BERT", "ViT"]


def proposed_for(program):
    done = command("plan", program.path, "--mesh", MESH, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def expect_outputs(outputs, program):
    assert len(outputs) == len(program.expected)
    for output, expected in zip(outputs, program.expected):
        torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_computes_what_one_device_does(name, tmp_path):
    program = exported(name)
    proposed = proposed_for(program)
    outputs, summary = in_process(program.path, MESH, proposed["plan"], program.inputs)
    expect_outputs(outputs, program)
    assert summary["fallbacks"] == []
    (tmp_path / "plan.json").write_text(json.dumps(proposed["plan"]))
    explained = command("explain", program.path, "--mesh", MESH, "--plan", tmp_path / "plan.json")
    assert explained.returncode == 0 and "by the rule" in explained.stdout, explained.stderr


@pytest.mark.parametrize("name", STRICT)
def test_strictly_exported_computes_what_one_device_does(name, tmp_path):
    program = exported(name, is_strict=True)
    plan = proposed_for(program)["plan"]
    assert plan == proposed_for(exported(name))["plan"]
    outputs, _ = by_command(program.path, MESH, plan, program.inputs, tmp_path)
    expect_outputs(outputs, program)
