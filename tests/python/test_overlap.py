"""Collectives that overlap matmuls: exported programs give the same outputs with overlap as without."""

import json
import os
import sys

import pytest
import torch

sys.path.insert(0, os.path.dirname(__file__))
from exported_models import MODELS
from exported_models.exporting import VARIANTS, export, inputs_of, named_inputs, outputs_of
from exported_models.llama import LAYERS
from exported_models.sharding import command

import weft

RATES = {"link": "50us,125MB/s", "compute": "100Gflop/s,25GB/s,2us"}


@pytest.fixture(scope="module", params=["exported", "decomposed"])
def exported(request, tmp_path_factory):
    """(file, inputs, outputs) of models, by name."""
    known = {}

    def get(name):
        if name not in known:
            program = export(MODELS[name], VARIANTS[request.param])
            path = tmp_path_factory.mktemp(name) / "model.pt2"
            torch.export.save(program, path)
            inputs = inputs_of(MODELS[name])
            known[name] = path, named_inputs(program, inputs), outputs_of(program, inputs)
        return known[name]

    return get


def plan_of(model, name):
    return next(plan.entries for plan in MODELS[model].all_plans if plan.name == name)


def sharded(path, mesh, plan, overlap):
    return weft._C.ShardedProgram(
        str(path), mesh, weft._C.ParallelPlan.parse(json.dumps(plan)), overlap=overlap, **RATES
    )


@pytest.mark.parametrize("mesh", ["tp=2", "tp=4"])
def test_a_sequence_parallel_decoder_has_four_pairs_per_layer(exported, mesh):
    path, inputs, expected = exported("llama")
    program = sharded(path, mesh, plan_of("llama", "sequence"), "force")
    fused = [line for line in program.overlap() if ": fused with" in line]
    # And the gather before the logits.
    assert len(fused) == 4 * LAYERS + 1, "\n".join(program.overlap())
    assert sum("fused with 3 matmuls" in line for line in fused) == LAYERS
    assert json.loads(program.summary())["overlapped"] == len(fused)
    without = sharded(path, mesh, plan_of("llama", "sequence"), "off")
    assert without.overlap() == []
    assert json.loads(without.summary())["collectives"] == json.loads(program.summary())["collectives"]
    for one, other, plain in zip(program.run(inputs), without.run(inputs), expected):
        torch.testing.assert_close(one, plain, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


CASES = [(name, plan.name) for name, model in MODELS.items() for plan in model.all_plans]


@pytest.mark.parametrize("name, plan", CASES, ids=["-".join(case) for case in CASES])
def test_every_program_gives_what_it_gives_by_itself(exported, name, plan):
    found = next(each for each in MODELS[name].all_plans if each.name == plan)
    path, inputs, expected = exported(name)
    for mesh in found.meshes:
        if mesh in found.refused:
            continue
        program = sharded(path, mesh, found.entries, "force")
        for one, other in zip(program.run(inputs), expected):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_the_command_says_what_became_of_every_collective(exported, tmp_path):
    path, _, _ = exported("llama")
    (tmp_path / "plan.json").write_text(json.dumps(plan_of("llama", "sequence")))
    arguments = ("explain", path, "--mesh", "tp=2", "--plan", tmp_path / "plan.json", "--link", RATES["link"])
    text = command(*arguments, "--overlap", "force").stdout
    assert "collectives that overlap matmuls\n" in text
    assert "layers.0.attention.wq: fused with 3 matmuls" in text
    explained = json.loads(command(*arguments, "--overlap", "force", "--json").stdout)
    fused = [each for each in explained["overlap"] if each["fused"]]
    assert len(fused) == 4 * LAYERS + 1 == explained["summary"]["overlapped"]
    assert all(each["chunks"] >= 1 and each["reason"] for each in fused)
    auto = json.loads(command(*arguments, "--json").stdout)["overlap"]
    assert len(auto) == len(explained["overlap"]) and not any(each["fused"] for each in auto)
    wrong = command(*arguments, "--overlap", "sometimes")
    assert wrong.returncode != 0 and "--overlap" in wrong.stderr


def test_a_written_program_runs_with_what_was_fused(exported, tmp_path):
    from safetensors.torch import load_file, save_file

    path, inputs, expected = exported("llama")
    (tmp_path / "plan.json").write_text(json.dumps(plan_of("llama", "sequence")))
    save_file(inputs, tmp_path / "x.safetensors")
    done = command(
        "shard", path, "--mesh", "tp=2", "--plan", tmp_path / "plan.json", "-o", tmp_path / "out", "--overlap", "force"
    )
    assert done.returncode == 0, done.stderr
    assert f"{4 * LAYERS + 1} of them overlapping matmuls" in done.stdout
    done = command("run", tmp_path / "out", "--input", tmp_path / "x.safetensors", "--output", tmp_path / "y.safetensors")
    assert done.returncode == 0, done.stderr
    torch.testing.assert_close(load_file(tmp_path / "y.safetensors")["output_0"], expected[0], rtol=1e-4, atol=1e-4)
