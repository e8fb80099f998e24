"""Models of transformers, exported as they are, go through `weft plan`, `explain`, `shard` and `run` and compute what one device
computes."""

import functools
import json
import re

import pytest
import torch
import weft
from architectures import ARCHITECTURES
from exporting import (
    WITHOUT_CACHE,
    exported,
    has_cache,
    strictly_exported,
    with_cache_output,
    with_static_cache,
)
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
# The most of the parameters that every rank holds under a proposed plan, where that is more than norms and biases of rowwise layers.
REPLICATED = {
    "GPT-2": 0.1,  # the table of positions
    "OPT": 0.13,
    "BERT": 0.17,
    "RoBERTa": 0.1,
    "Whisper": 0.14,  # and convolutions
    "ViT": 0.3,  # the projection of patches, and positions
    "CLIP": 0.22,
    "Mamba": 0.13,  # parameters between layers
}
EXPORTS = {"exported": exported, "strict": strictly_exported}


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


def expected_collectives(name, is_decoding):
    """The logits are gathered, and so is a cache that goes out: keys and values of two layers."""
    gathered = (name not in WITHOUT_LOGITS) + 4 * is_decoding
    return {"all_reduce": ALL_REDUCES.get(name, 5)} | ({"all_gather": gathered} if gathered else {})


@pytest.mark.parametrize("export", EXPORTS)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_computes_what_one_device_does(name, export, tmp_path):
    program = EXPORTS[export](name)
    proposed = proposed_for(program)
    outputs, summary = by_command(program.path, MESH, proposed["plan"], program.inputs, tmp_path)
    expect_outputs(outputs, program)
    assert summary["fallbacks"] == []
    is_decoding = export == "strict" and has_cache(name)
    assert collectives_of(summary) == expected_collectives(name, is_decoding), proposed
    explained = command("explain", program.path, "--mesh", MESH, "--plan", tmp_path / "plan.json")
    assert explained.returncode == 0 and "by the rule" in explained.stdout, explained.stderr
    assert "does not name" not in explained.stderr
    assert proposed["replicated"] < REPLICATED.get(name, 0.03) * proposed["parameters"]


@pytest.mark.parametrize("name", [name for name in ARCHITECTURES if name != "T5"])  # whose tied tables get another name
def test_the_way_of_exporting_changes_no_plan(name):
    assert proposed_for(strictly_exported(name))["plan"] == proposed_for(exported(name))["plan"]


@pytest.mark.parametrize("name", WITHOUT_CACHE)
def test_transformers_exports_no_cache_of_some(name):
    _, error = WITHOUT_CACHE[name]
    with pytest.raises(RuntimeError, match=error):
        with_cache_output(name)


def test_a_generating_model_has_a_cache_or_a_reason():
    assert {name for name in ARCHITECTURES if has_cache(name)} | set(WITHOUT_CACHE) == {
        name for name, architecture in ARCHITECTURES.items() if architecture.generates
    }


# A cache that goes out is gathered; one that stays inside is sharded by heads.
@pytest.mark.parametrize(
    "name, export, all_gathers",
    [
        ("Llama", with_cache_output, 5),
        ("Mixtral", with_cache_output, 5),
        ("Llama", with_static_cache, 1),
        ("Gemma 2", with_static_cache, 1),
    ],
)
def test_with_a_cache_of_another_kind_computes_what_one_device_does(name, export, all_gathers):
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
