"""Models of transformers, exported as they are, go through `weft plan`, `explain`, `shard` and `run` and compute what one device
computes."""

import functools
import json
import re

import pytest
import torch
import weft
from architectures import ARCHITECTURES
from exporting import exported, with_cache_input, with_cache_output, with_static_cache
from on_ranks import on_ranks, parallel

from exported_models.sharding import by_command, command, in_process

MESH = "tp=2"
# The all-reduces of a proposed plan: two per layer and one per sharded table; the logits are gathered.
ALL_REDUCES = {
    "T5": 12,  # three in layers of the decoder, and its table is looked up twice
    "Whisper": 11,
    "RoBERTa": 6,  # two tables are looked up by what is given
    "CLIP": 9,  # two towers, of which one has a table
    "ViT": 4,
    "OLMo 2": 9,  # four norms over all heads exchange their moments
}
WITHOUT_LOGITS = ("ViT", "CLIP")
STRICT = ["Llama", "Gemma", "GPT-2", "Phi-3", "Mixtral", "BERT", "ViT"]


@functools.cache
def _proposed_for(path):
    done = command("plan", path, "--mesh", MESH, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def proposed_for(program):
    return _proposed_for(program.path)


def collectives_of(summary):
    return {kind: calls for kind, calls in summary["collectives"].items() if calls}


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
    logits = {} if name in WITHOUT_LOGITS else {"all_gather": 1}
    assert collectives_of(summary) == {"all_reduce": ALL_REDUCES.get(name, 5)} | logits, proposed
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


# Logits are gathered, and the cache where it goes out; one that stays inside is sharded by heads.
@pytest.mark.parametrize(
    "name, export, all_gathers",
    [
        ("Llama", with_cache_output, 5),
        ("GPT-2", with_cache_output, 5),
        ("Mixtral", with_cache_output, 5),
        ("Llama", with_cache_input, 5),
        ("Qwen3", with_cache_input, 5),
        ("Llama", with_static_cache, 1),
        ("Gemma 2", with_static_cache, 1),
    ],
)
def test_with_a_cache_computes_what_one_device_does(name, export, all_gathers):
    program = export(name)
    outputs, summary = in_process(program.path, MESH, proposed_for(program)["plan"], program.inputs)
    expect_outputs(outputs, program)
    assert collectives_of(summary) == {"all_reduce": 5, "all_gather": all_gathers}


def layouts_in_program(program, plan):
    """Of every parameter, as the text of the sharded program has them."""
    text = str(weft._C.ShardedProgram(str(program.path), MESH, weft._C.ParallelPlan.parse(json.dumps(plan))))
    return dict((path, layout) for layout, path in re.findall(r'^input .* (\{.*?\}) = parameter "(.*)"$', text, re.MULTILINE))


def eager_layouts(name, plan):
    def layouts(mesh):
        model = parallel(ARCHITECTURES[name].make(), mesh, plan)
        return {
            path: "{" + ",".join(map(str, parameter.placements)) + "}"
            for path, parameter in model.named_parameters(remove_duplicate=False)
        }

    return on_ranks(layouts)[0]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_plan_gives_parameters_the_layouts_of_eager_mode(name):
    program = exported(name)
    for plan in (ARCHITECTURES[name].plan, proposed_for(program)["plan"]):
        in_program, eager = layouts_in_program(program, plan), eager_layouts(name, plan)
        assert any("S(" in layout for layout in in_program.values())
        assert in_program == {path: eager[path] for path in in_program}
