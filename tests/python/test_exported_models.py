"""Exported programs, sharded and run on ranks, give what the program gives by itself, and communicate what is known of them.

A model's programs as exported and decomposed are run with every plan on every mesh. Exporting takes most of the time, so of
other variants, on two meshes, the first models of families run one each, taking turns, and small ones the dynamic one.
WEFT_EXPORTED_MODELS=all runs everything with everything. WEFT_EXPORTED_PROGRAMS=<n> runs so many random programs,
WEFT_EXPORTED_PROGRAM=<seed> one of them."""

import functools
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

sys.path.insert(0, os.path.dirname(__file__))
from exported_models import FAMILIES, MODELS, transform_failures
from exported_models.exporting import VARIANTS, Variant, export, inputs_of, named_inputs, outputs_of, variants_of
from exported_models.random_module import random_program
from exported_models.sharding import by_command, command, in_process

TOLERANCE = 1e-4
ALWAYS = ("exported", "decomposed")
OTHER_MESHES = ("tp=3", "tp=4")
RUNS_ALL = os.environ.get("WEFT_EXPORTED_MODELS") == "all"
FOLDER = tempfile.TemporaryDirectory(prefix="weft_exported_")


@dataclass(frozen=True)
class Call:
    inputs: dict
    expected: list


@dataclass(frozen=True)
class Exported:
    path: Path
    calls: list


def saved(program, name, inputs_of_calls):
    path = Path(FOLDER.name) / f"{name}.pt2"
    torch.export.save(program, path)
    return Exported(path, [Call(named_inputs(program, inputs), outputs_of(program, inputs)) for inputs in inputs_of_calls])


# Tests of a program follow each other, so that few need to be kept.
@functools.lru_cache(maxsize=4)
def undecomposed(name, is_strict, is_dynamic):
    return export(MODELS[name], Variant("", is_strict=is_strict, is_dynamic=is_dynamic))


@functools.lru_cache(maxsize=4)
def exported(name, variant_name):
    model, variant = MODELS[name], VARIANTS[variant_name]
    program = undecomposed(name, variant.is_strict, variant.is_dynamic)
    program = program.run_decompositions() if variant.is_decomposed else program
    sizes = [{}, model.other_sizes] if variant.is_dynamic else [{}]
    return saved(program, f"{name}_{variant_name}", [inputs_of(model, **of_call) for of_call in sizes])


def other_variant(family, model):
    """The variant, besides those that are always run, that a family's first model is run as: each family takes another."""
    others = [variant for variant in variants_of(model) if variant.name not in ALWAYS]
    if family is transform_failures:
        return VARIANTS["dynamic"]
    return others[FAMILIES.index(family) % len(others)] if model is family.MODELS[0] else None


def variants_and_meshes():
    """(model, variant, meshes), None for all meshes"""
    for family in FAMILIES:
        for model in family.MODELS:
            for variant in variants_of(model):
                if RUNS_ALL or variant.name in ALWAYS:
                    yield model, variant, None
                elif variant == other_variant(family, model):
                    yield model, variant, OTHER_MESHES


CASES = [
    pytest.param(model, variant, plan, mesh, id=f"{model.name}-{variant.name}-{plan.name}-{mesh}")
    for model, variant, meshes in variants_and_meshes()
    for plan in model.all_plans
    for mesh in plan.meshes
    if meshes is None or mesh in meshes
]


def assert_same(actual, expected):
    assert len(actual) == len(expected)
    for i, (one, other) in enumerate(zip(actual, expected)):
        torch.testing.assert_close(
            one, other, rtol=TOLERANCE, atol=TOLERANCE, msg=lambda text, i=i: f"output {i}: {text}"
        )


def assert_communicates(summary, plan, variant_name):
    if plan.collectives is not None and (plan.counted_in is None or variant_name in plan.counted_in):
        assert {name: count for name, count in summary["collectives"].items() if count} == plan.collectives


@pytest.mark.parametrize("model, variant, plan, mesh", CASES)
def test_a_sharded_program_gives_what_it_gives_by_itself(model, variant, plan, mesh):
    program = exported(model.name, variant.name)
    if mesh in plan.refused:
        with pytest.raises(ValueError, match=plan.refused[mesh]):
            in_process(program.path, mesh, plan.entries, program.calls[0].inputs)
        return
    for call in program.calls:
        outputs, summary = in_process(program.path, mesh, plan.entries, call.inputs)
        assert_same(outputs, call.expected)
        assert_communicates(summary, plan, variant.name)


def plan_of(model_name, plan_name):
    return next(plan for plan in MODELS[model_name].all_plans if plan.name == plan_name)


@pytest.mark.parametrize(
    "model, variant, plan, mesh",
    [
        ("llama", "decomposed", "plain", "tp=4"),
        ("bert", "exported", "no heads, colwise words", "tp=3"),
        ("llama_cache_inputs", "dynamic", "plain", "dp=2,tp=2"),
        ("convnet_train", "decomposed", "head", "tp=2"),
    ],
)
def test_the_command_gives_what_the_program_gives_by_itself(model, variant, plan, mesh, tmp_path):
    program, plan = exported(model, variant), plan_of(model, plan)
    call = program.calls[-1]
    outputs, summary = by_command(program.path, mesh, plan.entries, call.inputs, tmp_path)
    assert_same(outputs, call.expected)
    assert_communicates(summary, plan, variant)
    assert summary == in_process(program.path, mesh, plan.entries, call.inputs)[1]


def test_the_command_refuses_a_plan_in_one_line_that_names_the_entry(tmp_path):
    plan = tmp_path / "plan.json"
    plan.write_text('{"h.*.attn.c_attn": {"style": "colwise", "heads": 5}}')
    program = exported("gpt2_odd", "exported")
    done = command("shard", program.path, "--mesh", "tp=2", "--plan", plan, "-o", tmp_path / "out")
    assert done.returncode != 0
    assert 'plan entry "h.*.attn.c_attn"' in done.stderr and len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_program_is_sharded_alike_before_and_after_another():
    first, other = exported("mlp", "decomposed"), exported("gpt2", "decomposed")
    plan, call = plan_of("mlp", "pairs"), first.calls[0]
    outputs, summary = in_process(first.path, "tp=4", plan.entries, call.inputs)
    in_process(other.path, "tp=4", plan_of("gpt2", "plain").entries, other.calls[0].inputs)
    outputs_again, summary_again = in_process(first.path, "tp=4", plan.entries, call.inputs)
    assert summary_again == summary
    assert all(torch.equal(one, again) for one, again in zip(outputs, outputs_again))


def test_the_summary_says_what_the_ranks_hold_and_what_a_call_moves():
    program, plan = exported("mlp", "decomposed"), plan_of("mlp", "pairs")
    whole = in_process(program.path, "tp=4", {}, program.calls[0].inputs)[1]
    cut = in_process(program.path, "tp=4", plan.entries, program.calls[0].inputs)[1]
    assert whole["bytes"] == 0 and cut["bytes"] > 0
    # Norms and the biases of rowwise layers are replicated: 3 x 16 elements of every block.
    of_block = 2 * 16 * 48 + 48
    assert whole["parameters_per_rank"] == [2 * (of_block + 48)] * 4
    assert cut["parameters_per_rank"] == [2 * (of_block // 4 + 48)] * 4
    assert whole["fallbacks"] == cut["fallbacks"] == []


def random_seeds():
    if seed := os.environ.get("WEFT_EXPORTED_PROGRAM"):
        return [int(seed)]
    return range(1, 1 + int(os.environ.get("WEFT_EXPORTED_PROGRAMS", "40")))


@pytest.mark.parametrize("seed", random_seeds())
def test_a_random_program_gives_what_it_gives_by_itself(seed):
    random = random_program(seed)
    program = torch.export.export(random.module(), random.inputs)
    if seed % 2:
        program = program.run_decompositions()
    program = saved(program, f"random_{seed}", [random.inputs])
    print(random)  # shown where the test fails
    outputs, _ = in_process(program.path, random.mesh, random.plan, program.calls[0].inputs)
    assert_same(outputs, program.calls[0].expected)
    program.path.unlink()
