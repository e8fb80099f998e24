"""weft checkpoint show, export and import, for Hugging Face's folders and for torch.distributed.checkpoint."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
import weft
from safetensors.torch import load_file
from torch import nn
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from weft import Replicate, Shard

COMMAND = Path(weft._C.__file__).parents[2] / "bin/weft"


def command(*arguments):
    return subprocess.run([COMMAND, "checkpoint", *map(str, arguments)], capture_output=True, text=True, timeout=120)


def convert(*arguments):
    """As the package's command does, in this process."""
    from weft._checkpoint.dcp import main

    main(list(map(str, arguments)))


def done(result):
    assert result.returncode == 0 and result.stderr == "", result.stderr
    return result.stdout


def trained(model, optimizer, steps, mesh=None):
    losses = []
    for step in range(steps):
        x = torch.sin(torch.arange(18.0).view(3, 6) + step)
        x = x if mesh is None else weft.distribute_tensor(x, mesh, [Replicate()])
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float((weft.full_tensor(loss.detach()) if mesh else loss.detach()).item()))
    return losses


_one_at_a_time = threading.Lock()  # ranks that are threads share torch's generator


def made(seed, lr=0.05):
    with _one_at_a_time:
        torch.manual_seed(seed)
        model = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2))
    groups = [{"params": model[0].parameters()}, {"params": model[1].parameters(), "lr": lr / 2}]
    return model, torch.optim.AdamW(groups, lr=lr)


def sharded(mesh, seed):
    model, _ = made(seed)
    for module in model:
        for name, parameter in list(module.named_parameters()):
            value = weft.distribute_tensor(parameter.detach(), mesh, [Shard(0)], src_data_rank=None)
            setattr(module, name, nn.Parameter(value))
    return model, torch.optim.AdamW([{"params": model[0].parameters()}, {"params": model[1].parameters()}])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "c"

    def run(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        w = weft.distribute_tensor(torch.arange(12.0).view(4, 3), mesh, [Shard(0)])
        weft.save({"model": {"w": w, "b": torch.ones(2, dtype=torch.bfloat16)}, "step": 3, "name": ("a", 1)}, folder)

    weft.run_on_ranks(2, run, timeout=20)
    return folder


def test_show_lists_tensors_and_values(saved):
    assert done(command("show", saved)).splitlines() == [
        "model.b  bf16[2]",
        "model.w  f32[4, 3]  in 2 parts",
        'name = {"tuple":["a",1]}',
        "step = 3",
        "2 tensors of 52 bytes in 2 files",
    ]
    shown = json.loads(done(command("show", saved, "--json")))
    assert shown["bytes"] == 52 and shown["values"] == {"name": {"tuple": ["a", 1]}, "step": 3}
    assert shown["tensors"]["model.w"] == {"dtype": "f32", "shape": [4, 3], "parts": 2}
    failed = command("show", saved.parent)
    assert failed.returncode != 0 and failed.stderr.startswith("weft: [weft checkpoint]") and failed.stdout == ""


def test_hugging_face_folders_are_exported_and_imported(saved, tmp_path):
    assert done(command("export", saved, "--prefix", "model.", "-o", tmp_path / "hf")) == f"written to {tmp_path / 'hf'}: 2 tensors\n"
    (file,) = (tmp_path / "hf").glob("*.safetensors")
    assert torch.equal(load_file(file)["w"], torch.arange(12.0).view(4, 3))
    split = ("export", saved, "--prefix", "model.", "-o", tmp_path / "split", "--max-file-gb", 4e-8, "--json")
    assert json.loads(done(command(*split))) == {"folder": str(tmp_path / "split"), "tensors": 2}
    assert len(list((tmp_path / "split").glob("*.safetensors"))) == 2
    for folder in ("hf", "split"):
        done(command("import", tmp_path / folder, "--prefix", "again.", "-o", tmp_path / f"from_{folder}"))
        again = weft.load({"again": {"w": torch.zeros(4, 3), "b": torch.zeros(2)}}, tmp_path / f"from_{folder}")["again"]
        assert torch.equal(again["w"], torch.arange(12.0).view(4, 3)) and again["b"].sum() == 2


@pytest.mark.parametrize("by_names", [False, True], ids=["numbers", "names"])
def test_training_goes_from_torch_to_weft(tmp_path, by_names, capsys):
    """The optimizer's state as torch.optim has it, by numbers, or as torch.distributed.checkpoint.state_dict, by names."""
    model, optimizer = made(0)
    trained(model, optimizer, 2)
    of_optimizer = get_optimizer_state_dict(model, optimizer) if by_names else optimizer.state_dict()
    dcp.save({"model": model.state_dict(), "optimizer": of_optimizer, "list": [torch.ones(2), 5]}, checkpoint_id=tmp_path / "dcp", no_dist=True)
    expected = trained(model, optimizer, 3)
    convert("import", tmp_path / "dcp", "-o", tmp_path / "weft", "--format", "dcp", "--json", "--max-file-gb", 1e-7)
    assert json.loads(capsys.readouterr().out) == {"folder": str(tmp_path / "weft"), "tensors": 17}
    assert len(list((tmp_path / "weft").glob("*.safetensors"))) > 2

    def run(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        other, new = sharded(mesh, 1)
        state = weft.load({"model": other, "optimizer": new, "list": [torch.zeros(2), 0]}, tmp_path / "weft")
        assert state["list"][0].tolist() == [1, 1] and state["list"][1] == 5
        assert weft.is_dtensor(new.state[other[0].weight]["exp_avg"])
        return trained(other, new, 3, mesh)

    for losses in weft.run_on_ranks(2, run, timeout=20):
        assert losses == pytest.approx(expected, rel=1e-5)


def test_training_goes_from_weft_to_torch(tmp_path):
    def run(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        model, optimizer = sharded(mesh, 0)
        trained(model, optimizer, 2, mesh)
        weft.save({"model": model, "optimizer": optimizer}, tmp_path / "weft")
        return trained(model, optimizer, 3, mesh)

    expected = weft.run_on_ranks(2, run, timeout=20)[0]
    convert("export", tmp_path / "weft", "-o", tmp_path / "out", "--format=dcp")
    model, optimizer = made(1)
    trained(model, optimizer, 1)  # dcp.load fills a state that is there
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    dcp.load(state, checkpoint_id=tmp_path / "out", no_dist=True)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    assert trained(model, optimizer, 3) == pytest.approx(expected, rel=1e-5)
    convert("export", tmp_path / "weft", "-o", tmp_path / "part", "--format", "dcp", "--prefix", "optimizer.")
    state = optimizer.state_dict()
    dcp.load(state, checkpoint_id=tmp_path / "part", no_dist=True)
    assert state["state"][0]["step"] == 2


def test_what_is_not_for_python_is_left_to_the_program(saved, tmp_path):
    from weft._command import _is_of_python

    assert _is_of_python(["checkpoint", "import", "x", "--format", "dcp"]) and _is_of_python(["checkpoint", "export", "--format=dcp"])
    assert not _is_of_python(["checkpoint", "export", "dcp", "-o", "dcp"]) and not _is_of_python(["run", "--format", "dcp"])
    refused = command("export", saved, "-o", tmp_path / "x", "--format", "dcp")
    assert refused.returncode != 0 and "--format dcp is for Python" in refused.stderr and not (tmp_path / "x").exists()
    with pytest.raises(ValueError, match="names that begin with 'y.' are required"):
        convert("export", saved, "-o", tmp_path / "x", "--format", "dcp", "--prefix", "y.")


def test_the_package_refuses_what_has_no_meaning(saved, tmp_path, monkeypatch, capsys):
    from weft import _command

    def refused(*arguments):
        monkeypatch.setattr(sys, "argv", ["weft", "checkpoint", "export", str(saved), "-o", str(tmp_path / "x"), *arguments])
        with pytest.raises(SystemExit) as error:
            _command.main()
        assert not (tmp_path / "x").exists()
        return str(error.value) + capsys.readouterr().err

    assert "--max-file-gb is for import: dcp.save makes one file." in refused("--format", "dcp", "--max-file-gb", "1")
    assert "weft: [checkpoint]" in refused("--format", "dcp", "--prefix", "y.")
