"""docs/checkpoints.md: its programs and commands run, and a reader that was written by its description of the format alone."""

import builtins
import copy
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
import torch
import weft
from torch import nn
from weft import Replicate, Shard

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "checkpoints.md").read_text()
COMMAND = Path(weft._C.__file__).parents[2] / "bin/weft"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)


def json_text(manifest):
    return json.dumps(manifest, separators=(",", ":"), ensure_ascii=False)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return f"{crc ^ 0xFFFFFFFF:08x}"


def read(folder):
    """The tensors and the values of a checkpoint, as docs/checkpoints.md says."""
    manifest = json.loads((folder / "checkpoint.json").read_text())
    stated = manifest.pop("checksum")
    assert crc32c(json_text(manifest).encode()) == stated
    dtypes = {"f32": torch.float32, "bf16": torch.bfloat16, "i64": torch.int64, "c128": torch.complex128, "bool": torch.bool}
    tensors = {}
    for name, described in manifest["tensors"].items():
        tensor = torch.zeros(described["shape"], dtype=dtypes[described["dtype"]])
        taken = torch.zeros(described["shape"], dtype=torch.int64)
        for part in described["parts"]:
            file = manifest["files"][part["file"]]
            assert "/" not in file["name"] and (folder / file["name"]).stat().st_size == file["bytes"]
            runs = [[tuple(map(int, run.split(":"))) for run in runs.split(",")] for runs in part["index"]]
            index = [torch.cat([torch.arange(begin, end) for begin, end in each]) for each in runs]
            count = int(torch.tensor([len(each) for each in index]).prod())
            data = (folder / file["name"]).read_bytes()[part["begin"] :][: count * tensor.element_size()]
            sums = part["crc32c"] if isinstance(part["crc32c"], list) else [part["crc32c"]]
            chunk = part.get("chunk", len(data))
            assert sums == [crc32c(data[begin : begin + chunk]) for begin in range(0, len(data), chunk)]
            block = torch.frombuffer(bytearray(data), dtype=tensor.dtype).view([len(each) for each in index])
            places = torch.meshgrid(*index, indexing="ij") if index else ()
            tensor[places] = block
            taken[places] += 1
        assert (taken == 1).all(), name
        tensors[name] = tensor
    values = manifest["values"]
    others = [name for name, value in values.items() if isinstance(value, dict) and set(value) == {"tensor"}]
    tensors.update({name: tensors[values.pop(name)["tensor"]] for name in others})
    return tensors, values


def test_a_reader_by_the_description_of_the_format(tmp_path):
    state = {
        "rows": torch.randn(7, 5), "columns": torch.randn(7, 5), "both": torch.randn(8, 6).bfloat16(), "plain": torch.arange(6),
        "number": torch.tensor(2.5), "none": torch.zeros(0, 3), "complex": torch.randn(3, dtype=torch.complex128), "flags": torch.ones(5) > 0,
    }  # fmt: skip
    layouts = {"rows": [Shard(0), Replicate()], "columns": [Replicate(), Shard(1)], "both": [Shard(0), Shard(0)], "none": [Shard(0), Shard(1)]}

    def run(rank):
        mesh = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        made = {
            name: weft.distribute_tensor(tensor, mesh, layouts[name], src_data_rank=None) if name in layouts else tensor
            for name, tensor in state.items()
        }
        for number in (1, 2):  # the second in place of the first
            weft.save({"state": made, "step": number, "pair": (1, None), "ä": "ö"}, tmp_path / "c", max_file_bytes=200)

    weft.run_on_ranks(4, run, timeout=20)
    tensors, values = read(tmp_path / "c")
    assert tensors.keys() == {f"state.{name}" for name in state}
    assert all(torch.equal(tensors[f"state.{name}"], tensor) and tensors[f"state.{name}"].dtype == tensor.dtype for name, tensor in state.items())
    assert values == {"step": 2, "pair": {"tuple": [1, None]}, "ä": "ö"}


def test_tied_parameters_are_stored_once(tmp_path):
    class Tied(nn.Module):
        def __init__(self, is_tied=True):
            super().__init__()
            self.embed, self.head = nn.Embedding(300, 8), nn.Linear(8, 300, bias=False)
            if is_tied:
                self.head.weight = self.embed.weight

    model = Tied()

    def run(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        with torch.device("meta"):
            other = Tied()
        weft.parallelize_module(other, mesh, {"embed": weft.RowwiseParallel(), "head": weft.ColwiseParallel()})
        for load, folder in ((weft.load, "plain"), (weft.load_pretrained, "plain")):
            load(other, tmp_path / folder)
            assert other.head.weight is other.embed.weight and torch.equal(weft.full_tensor(other.head.weight.detach()), model.head.weight)
        saver = weft.AsyncSaver()
        saver.save(other, tmp_path / "sharded")
        saver.wait()

    weft.save(model, tmp_path / "plain")
    weft.run_on_ranks(2, run, timeout=20)
    for folder in (tmp_path / "plain", tmp_path / "sharded"):
        manifest = json.loads((folder / "checkpoint.json").read_text())
        assert manifest["values"] == {"head.weight": {"tensor": "embed.weight"}}
        assert sum(file["bytes"] for file in manifest["files"]) < 1.5 * model.embed.weight.nbytes
        tensors, _ = read(folder)
        assert torch.equal(tensors["head.weight"], model.embed.weight) and torch.equal(tensors["embed.weight"], model.embed.weight)
        untied = weft.load(Tied(is_tied=False), folder)
        assert torch.equal(untied.head.weight, model.embed.weight) and torch.equal(untied.embed.weight, model.embed.weight)
        shown = subprocess.run([COMMAND, "checkpoint", "show", folder], check=True, capture_output=True, text=True, timeout=60).stdout
        assert "embed.weight  f32[300, 8]" in shown and "head.weight  f32[300, 8]" in shown


def test_another_name_of_no_tensor_is_an_error(tmp_path):
    weft.save({"x": torch.ones(2)}, tmp_path)
    manifest = json.loads((tmp_path / "checkpoint.json").read_text())
    del manifest["checksum"]
    manifest["values"]["y"] = {"tensor": "z"}
    manifest["checksum"] = crc32c(json_text(manifest).encode())
    (tmp_path / "checkpoint.json").write_text(json_text(manifest))
    with pytest.raises(ValueError, match="'y' is another name of the tensor \"z\", but there is none"):
        weft.load({"x": torch.zeros(2)}, tmp_path)


def test_indices_may_be_several_runs(tmp_path):
    """Fused projections are sharded in parts, so that a rank has rows of each."""
    linear = nn.Linear(4, 12)

    def run(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        with torch.device("meta"):
            model = nn.Sequential(nn.Linear(4, 12))
        weft.parallelize_module(model, mesh, {"0": {"style": "colwise", "parts": [4, 4, 4]}})
        weft.load(model, tmp_path / "plain")
        weft.save(model, tmp_path / "fused")

    weft.save(nn.Sequential(linear), tmp_path / "plain")
    weft.run_on_ranks(2, run, timeout=20)
    parts = json.loads((tmp_path / "fused/checkpoint.json").read_text())["tensors"]["0.weight"]["parts"]
    assert sorted(part["index"][0] for part in parts) == ["0:2,4:6,8:10", "2:4,6:8,10:12"]
    assert torch.equal(read(tmp_path / "fused")[0]["0.weight"], linear.weight)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run_programs():
    saved_and_loaded, in_the_background = blocks("python")

    torch.manual_seed(1)
    same = nn.Linear(3, 3)

    def rank_program(rank):
        model = copy.deepcopy(same)
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        given = {"model": model, "optimizer": optimizer, "step": 100, "range": lambda stop: builtins.range(3)}
        exec(saved_and_loaded, given)
        assert given["state"]["step"] == 100
        exec(in_the_background, given)
        return model.weight.detach()

    return weft.run_on_ranks(2, rank_program, timeout=20)[0]


def test_the_programs_run(here):
    run_programs()
    assert sorted(path.name for path in (here / "run").iterdir()) == ["step_0", "step_1", "step_2"]
    assert read(here / "run/step_2")[1]["step"] == 2


def test_the_commands_run(here, capsys):
    from weft._checkpoint.dcp import main

    torch.manual_seed(1)
    model = nn.Linear(3, 3)
    weft.save({"model": model, "step": 100}, "run/step_100")
    commands = [line.partition("#")[0].strip() for line in blocks("sh")[0].splitlines()]
    assert len(commands) == 4
    for command in commands:
        _, subcommand, *arguments = shlex.split(command)
        assert subcommand == "checkpoint"
        if "dcp" in arguments:
            main(arguments)
        else:
            subprocess.run([COMMAND, subcommand, *arguments], check=True, capture_output=True, timeout=60)
    assert torch.equal(read(here / "run/step_0")[0]["model.weight"], model.weight)
    assert (here / "dcp/.metadata").exists() and "2 tensors" in capsys.readouterr().out


def test_the_key_map_is_one(tmp_path):
    key_map = next(block for block in blocks("json") if "concat" in block)
    names = ["embed.weight", *(f"layers.0.{name}.weight" for name in ("q", "k", "v", "fc", "qkv"))]
    weft.save({name: torch.zeros(6, 2) for name in names}, tmp_path / "c")
    wanted = ["lm_head.weight", "layers.0.attn.qkv.weight", "layers.0.attn.k.weight", "layers.0.fc.weight"]
    stored, missing, _ = weft._C.match_keys(weft._C.stored_pretrained(str(tmp_path / "c")), [[f"model.{name}"] for name in wanted], key_map)
    shapes = {name: shape for name, (_, shape) in stored.tensors.items()}
    assert not missing and shapes["model.layers.0.attn.qkv.weight"] == [18, 2] and shapes["model.layers.0.attn.k.weight"] == [1, 2]
    assert shapes["model.layers.0.fc.weight"] == [2, 6]
