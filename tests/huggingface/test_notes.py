"""What a plan is told that names less of a model than there is: layers that stay unsharded, and modules tied to named ones."""

import json

import pytest
import torch
from architectures import ARCHITECTURES
from exporting import arguments_of, exported
from on_ranks import expect_equal, global_value, on_ranks, parallel
from test_exports import eager_layouts, layouts_in_program
from through_commands import MESH, expect_outputs, proposed_for

from exported_models.sharding import command, in_process

EXPERTS = "model.layers.*.mlp.experts"


def without_experts(plan):
    return {pattern: style for pattern, style in plan.items() if not pattern.startswith(EXPERTS)}


def commands(program, plan, folder):
    """The errors of `explain` and `shard`, which must succeed."""
    file = folder / "plan.json"
    file.write_text(json.dumps(plan))
    arguments = [program.path, "--mesh", MESH, "--plan", file]
    done = [command("explain", *arguments), command("shard", *arguments, "-o", folder / "out")]
    assert [each.returncode for each in done] == [0, 0], done
    return [each.stderr for each in done]


def test_experts_that_no_pattern_names_are_told(tmp_path):
    architecture, program = ARCHITECTURES["Mixtral"], exported("Mixtral")
    for plan in (without_experts(architecture.plan), without_experts(proposed_for(program)["plan"])):
        with pytest.warns(UserWarning, match=r"does not name 4 layers with 82% of .*experts\.gate_up_proj \(2\)"):
            on_ranks(lambda mesh: parallel(architecture.make(), mesh, plan))
        for said in commands(program, plan, tmp_path):
            assert said.count("weft: the plan does not name layers with 82% of the parameters") == 1
            assert f"{EXPERTS}.gate_up_proj, {EXPERTS}.down_proj" in said
    assert not any("does not name" in said for said in commands(program, architecture.plan, tmp_path))


@pytest.mark.parametrize(
    "plan, note",
    [
        ({"transformer.wte": "rowwise"}, 'shards the weight of "transformer.wte", which "lm_head" has too: "lm_head" is colwise'),
        ({"lm_head": "colwise"}, 'shards the weight of "lm_head", which "transformer.wte" has too: "transformer.wte" is rowwise'),
    ],
    ids=["table", "head"],
)
@pytest.mark.filterwarnings("ignore:.*the plan does not name")
def test_tied_modules_have_one_layout_whichever_is_named(plan, note, tmp_path):
    program = exported("GPT-2")
    assert all(said.count(note) == 1 for said in commands(program, plan, tmp_path))
    layouts, eager = layouts_in_program(program, plan), eager_layouts("GPT-2", plan)
    assert layouts["transformer.wte.weight"] == layouts["lm_head.weight"] == "{S(0)}"
    assert layouts == {path: eager[path] for path in layouts}
    outputs, summary = in_process(program.path, MESH, plan, program.inputs)
    expect_outputs(outputs, program)
    assert {kind: calls for kind, calls in summary["collectives"].items() if calls} == {"all_reduce": 1, "all_gather": 1}
    model = ARCHITECTURES["GPT-2"].make()

    def logits(mesh):
        with torch.no_grad():
            return global_value(parallel(model, mesh, plan)(**arguments_of("GPT-2")).logits)

    expect_equal(on_ranks(logits), program.expected[0])
