"""Models of transformers, exported as they are: what zoo.py does not say of them."""

import json
import re

import pytest
import weft
import zoo
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
from through_commands import MESH, collectives_of, expect_outputs, proposed_for

from exported_models.sharding import in_process

@pytest.mark.parametrize("export", zoo.EXPORTS)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_computes_what_one_device_does_as_the_document_says(name, export):
    assert zoo.cell(name, export) == zoo.documented()[name][export]


@pytest.mark.parametrize("name", ARCHITECTURES)
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
