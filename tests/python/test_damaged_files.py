"""The command on files that were damaged and on disks that are full: one line of error, and nothing left behind."""

import json
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

sys.path.insert(0, str(Path(__file__).parent))
from exported_models.sharding import COMMAND, command


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, its plan, an input, and the folder that it was sharded into."""
    folder = tmp_path_factory.mktemp("damaged")
    torch.manual_seed(0)
    x = torch.randn(4, 8)
    torch.export.save(torch.export.export(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8)), (x,)), folder / "model.pt2")
    (folder / "plan.json").write_text('{"0": "colwise", "2": "rowwise"}')
    save_file({"input": x}, folder / "x.safetensors")
    made = command("shard", folder / "model.pt2", "--mesh", "tp=2", "--plan", folder / "plan.json", "-o", folder / "out")
    assert made.returncode == 0, made.stderr
    return folder


def refused(result, *texts):
    assert result.returncode == 1 and result.stderr.startswith("weft: ") and result.stderr.count("\n") == 1, result
    for text in texts:
        assert text in result.stderr
    assert "PyTorch" not in result.stderr and "defect" not in result.stderr


def shard(folder, output, model="model.pt2", plan="plan.json"):
    return ("shard", folder / model, "--mesh", "tp=2", "--plan", folder / plan, "-o", output)


def run(folder, program, output):
    return ("run", program, "--input", folder / "x.safetensors", "--output", output)


def flip_bit_of_weight(path, weight):
    """Inside of the bytes that a weight has in a file."""
    data = bytearray(path.read_bytes())
    at = data.find(weight.detach().numpy().tobytes())
    assert at > 0
    data[at + 9] ^= 8
    path.write_bytes(data)


def test_a_flipped_bit_in_a_weight_is_an_error_where_weights_are_read(folder, tmp_path):
    for name in ("plan.json", "x.safetensors"):
        shutil.copy(folder / name, tmp_path)
    model = tmp_path / "model.pt2"
    shutil.copy(folder / "model.pt2", model)
    flip_bit_of_weight(model, torch.export.load(folder / "model.pt2").state_dict["0.weight"])
    refused(command(*shard(tmp_path, tmp_path / "new")), "data/weights/weight_0", "the file is damaged")
    refused(command(*run(tmp_path, model, tmp_path / "y.safetensors")), "the file is damaged")
    assert command("plan", model, "--mesh", "tp=2").returncode == 0, "a plan does not depend on what weights are"
    assert not (tmp_path / "new").exists()


def test_a_flipped_bit_in_a_ranks_weight_is_an_error(folder, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(folder / "out", out)
    flip_bit_of_weight(out / "rank_1.pt2", torch.export.load(out / "rank_1.pt2").state_dict["0.weight"])
    refused(command(*run(folder, out, tmp_path / "y.safetensors")), "rank_1.pt2", "the file is damaged")


@pytest.mark.parametrize(
    "change, text",
    [
        (lambda ranks: ranks.__setitem__(1, dict(ranks[0], rank=1)), "a file for each rank is required, but two have rank_0.pt2"),
        (lambda ranks: ranks.reverse(), "rank 0 is required as entry 0, but got rank 1"),
        (lambda ranks: ranks.pop(), "2 ranks are required, but got 1"),
        (lambda ranks: ranks[1].update(file="../rank_1.pt2"), "a file of the same folder is required"),
        (lambda ranks: ranks[1].update(bytes=7), "is required for what it says"),
    ],
)
def test_a_manifest_that_was_changed_is_an_error(folder, tmp_path, change, text):
    out = tmp_path / "out"
    shutil.copytree(folder / "out", out)
    manifest = json.loads((out / "weft.json").read_text())
    change(manifest["ranks"])
    (out / "weft.json").write_text(json.dumps(manifest))
    refused(command(*run(folder, out, tmp_path / "y.safetensors")), "out/weft.json is not what `weft shard` writes", text)


def test_a_file_of_another_rank_is_an_error(folder, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(folder / "out", out)
    shutil.copy(out / "rank_0.pt2", out / "rank_1.pt2")
    refused(command(*run(folder, out, tmp_path / "y.safetensors")), "rank_1.pt2", "the file is another one")


def test_a_plan_that_nests_deep_is_an_error(folder, tmp_path):
    (folder / "deep.json").write_text('{"0": ' + "[" * 50000 + "]" * 50000 + "}")
    refused(command(*shard(folder, tmp_path / "new", plan="deep.json")), "must have at most 200 lists and objects")
    (folder / "deep.json").write_text('{"0":' * 50000 + "1" + "}" * 50000)
    refused(command("check-plan", folder / "deep.json"), "must have at most 200 lists and objects")


@pytest.mark.parametrize("limit", [0, 10, 1000, 5000])
def test_a_full_disk_is_an_error_that_leaves_nothing_behind(folder, tmp_path, limit):
    model, plan = folder / "model.pt2", folder / "plan.json"
    commands = [shard(folder, tmp_path / "out"), ("explain", model, "--mesh", "tp=2", "--plan", plan, "--html", tmp_path / "p.html")]
    if limit <= 10:
        commands += [run(folder, folder / "out", tmp_path / "y.safetensors"), ("plan", model, "--mesh", "tp=2", "-o", tmp_path / "p.json")]
    for arguments in commands:
        result = subprocess.run(
            [COMMAND, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=120,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
        )
        refused(result, "cannot be written: File too large")
        assert list(tmp_path.iterdir()) == []


def test_a_standard_output_that_is_full_is_an_error(folder):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [COMMAND, "plan", folder / "model.pt2", "--mesh", "tp=2", "--json"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    refused(result, "the standard output cannot be written")
