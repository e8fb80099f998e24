"""Plans that name modules to be fully sharded: one file describes tensor parallelism and full sharding together."""

import copy
import json
import sys
from pathlib import Path

import pytest
import torch
import weft
from torch import nn
from weft import Replicate, Shard

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/python"))
import train

STEPS = 5
UNITS = {"layers.*": {"shard": "dp"}, "": {"shard": "dp"}}
STYLES = json.loads(train.plan_file("llama", False).read_text())


def on_mesh(dims, program):
    def run(rank):
        return program(weft.init_device_mesh("cpu", tuple(dims.values()), mesh_dim_names=tuple(dims)))

    return weft.run_on_ranks(torch.Size(dims.values()).numel(), run)


def losses_of(model, to_batch):
    optimizer = train.make_optimizer(model)
    return [train.training_step(model, optimizer, *map(to_batch, train.EXAMPLES["llama"].batch(k))).item() for k in range(STEPS)]


def as_dict(plan, folder):
    return plan


def as_file(plan, folder):
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    return path


def as_plan(plan, folder):
    return weft.ParallelPlan.parse(str(weft.ParallelPlan.parse(json.dumps(plan))))


@pytest.mark.parametrize("given", [as_dict, as_file, as_plan])
@pytest.mark.parametrize("dims", [{"dp": 2, "tp": 2}, {"dp": 2}], ids=str)
def test_one_plan_shards_by_both(dims, given, tmp_path):
    model = train.make_model("llama")
    expected = losses_of(copy.deepcopy(model), lambda values: values)
    plan = given((STYLES if "tp" in dims else {}) | UNITS, tmp_path)

    def program(mesh):
        own = weft.parallelize_module(copy.deepcopy(model), mesh, plan)
        placements = own.layers[1].feed_forward.w1.weight.placements
        assert isinstance(placements[0], weft.RaggedShard) and placements[1:] == ((Shard(0),) if mesh.ndim > 1 else ())
        assert isinstance(own, weft.FullyShardedModule) and isinstance(own.layers[0], weft.FullyShardedModule)
        assert not isinstance(own.layers[0].attention, weft.FullyShardedModule)
        assert losses_of(own, lambda values: train.distribute_batch([values], mesh)[0]) == pytest.approx(expected, abs=1e-5)

    on_mesh(dims, program)


def test_the_options_of_an_entry():
    def program(mesh):
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        plan = {"0": {"shard": "dp", "reshard_after_forward": False}, "": {"shard": "dp", "replicate": "replicate"}}
        weft.parallelize_module(model, mesh, plan)
        assert isinstance(model[0].weight.placements[1], weft.RaggedShard)
        assert model[1].weight.placements[0] == Replicate()
        with weft.comm_debug() as log:
            model(torch.ones(2, 4)).sum().backward()
        gathers = sum(row.calls for row in log.rows if row.collective == "all_gather" and row.operator == "fully_shard")
        assert gathers == 2  # none of them again in backward

    on_mesh({"replicate": 2, "dp": 2}, program)


def test_an_entry_with_a_style_and_a_shard():
    """The layer is colwise over tp, and a unit of its own over dp."""
    given = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 8))
    expected = given(torch.ones(4, 8))

    def program(mesh):
        plan = {"0": {"style": "colwise", "shard": "dp"}, "1": "rowwise", "": {"shard": "dp"}}
        model = weft.parallelize_module(copy.deepcopy(given), mesh, plan)
        assert len({id(each._weft_unit) for each in (model, model[0])}) == 2
        assert model[0].weight.placements[1] == Shard(0) and model[1].weight.placements[1] == Shard(1)
        x = weft.distribute_tensor(torch.ones(4, 8), mesh, [Shard(0), Replicate()])
        torch.testing.assert_close(model(x).full_tensor(), expected)

    on_mesh({"dp": 2, "tp": 2}, program)


def test_wrong_entries():
    def program(mesh):
        for plan, text in (
            ({"0": {"shard": 2}}, 'the name of a mesh dim is required for "shard", but got 2'),
            ({"3": {"shard": "dp"}}, 'every pattern of a plan must match a module, but "3" matches none'),
            ({"0": {"shard": "tp"}}, "a mesh dim of mesh.* is required, but got 'tp'"),
            ({"0": {"shard": "dp"}, "[01]": {"shard": "dp", "replicate": "x"}}, "a module is fully sharded once"),
        ):
            with pytest.raises(ValueError, match=text):
                weft.parallelize_module(nn.Sequential(nn.Linear(4, 4)), mesh, plan)

    on_mesh({"dp": 2}, program)
