"""`weft overlap`: the collectives of a rank's program overlap the matmuls next to them."""

import json
import os
import sys

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore

sys.path.insert(0, os.path.dirname(__file__))
from exported_models.sharding import command

# They are deprecated by name alone.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")

RATES = ("--link", "50us,125MB/s", "--compute", "100Gflop/s,25GB/s,2us")


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(512, 512, bias=False), nn.Linear(512, 512, bias=False)

    def forward(self, x):
        full = functional.all_gather_tensor(x, 0, dist.group.WORLD)
        return functional.all_reduce(self.down(self.up(full).relu()), "sum", dist.group.WORLD)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    path = tmp_path_factory.mktemp("overlap") / "rank_0.pt2"
    torch.export.save(torch.export.export(Layer(), (torch.randn(256, 512),)), path)
    yield path
    dist.destroy_process_group()


def operators(path):
    return [str(node.target) for node in torch.export.load(path).graph.nodes if "weft" in str(node.target)]


def done(*arguments):
    result = command("overlap", *arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_file_that_is_written_has_the_fused_operators_and_every_decision_is_told(model, tmp_path):
    text = done(model, "-o", tmp_path / "fused.pt2", "--overlap", "force")
    assert operators(tmp_path / "fused.pt2") == ["weft.all_gather_matmul.default"]
    gather, reduction, written = text.splitlines()
    assert gather.startswith("all_gather %all_gather_into_tensor over 0, in up: fused with 1 matmul")
    assert reduction.endswith("the number of members of 0 is not known: it is no dim of the program's mesh")
    assert written.endswith("fused.pt2: 1 of 2 collectives fused")


def test_the_size_of_a_group_is_what_an_all_reduce_lacks(model, tmp_path):
    text = done(model, "-o", tmp_path / "fused.pt2", "--overlap", "force", "--group-size", "0=2", "--json")
    decisions = json.loads(text)["overlap"]
    assert [each["kind"] for each in decisions if each["fused"]] == ["all_gather", "all_reduce"]
    assert operators(tmp_path / "fused.pt2") == ["weft.all_gather_matmul.default", "weft.matmul_reduce_scatter.default"]


def test_rates_and_groups_decide(model, tmp_path):
    fused = tmp_path / "fused.pt2"
    assert "gains" in done(model, "-o", fused, *RATES)
    assert operators(fused) == ["weft.all_gather_matmul.default"]
    assert "overlap is off for its group" in done(model, "-o", fused, *RATES, "--group", "0=off")
    assert operators(fused) == []
    assert done(model, "-o", fused, "--overlap", "off").startswith("written to")
    assert "fused with 1 matmul" in done(model, "-o", fused, "--overlap", "off", "--group", "0=force")


def test_wrong_arguments_are_one_line_with_a_hint(model, tmp_path):
    written = tmp_path / "x.pt2"
    given = (model, "-o", written)
    for code, text, arguments in (
        (2, "weft overlap --help", (model,)),
        (2, "a group and auto, off or force as in 'tp=off' is required, but got '0=never'", (*given, "--group", "0=never")),
        (2, "a group and its number of members as in 'tp=4' is required, but got '0'", (*given, "--group-size", "0")),
        (1, "cannot be opened", (tmp_path / "none.pt2", "-o", written)),
    ):
        result = command("overlap", *arguments)
        assert result.returncode == code and text in result.stderr, result.stderr
    assert not written.exists()
