"""weft.save, weft.load and AsyncSaver: modules, optimizers and values, on other meshes than they were saved on."""

import json
import math
import shutil
import threading

import pytest
import torch
import weft
from safetensors.torch import load_file
from torch import nn
from weft import Replicate, Shard


def on_ranks(size, fn):
    return weft.run_on_ranks(size, fn, timeout=20)


def plan(style):
    return {"0": style, "2": style}


def trained(size, placements, steps, load_from=None, save_to=None, save_at=None):
    """The losses of a small model's training, its parameters sharded so, from a checkpoint on if one is given."""

    def run(rank):
        mesh = weft.init_device_mesh("cpu", (size,), mesh_dim_names=("tp",))
        generator = torch.Generator().manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 5))
        for module in (model[0], model[2]):
            for name, parameter in list(module.named_parameters()):
                value = torch.randn(parameter.shape, generator=generator) / 4
                own = placements if parameter.dim() == 2 else [Replicate()]
                setattr(module, name, nn.Parameter(weft.distribute_tensor(value, mesh, own)))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3)
        state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "step": 0, "random": weft.random_state()}
        if load_from:
            weft.load(state, load_from)
            weft.set_random_state(state["random"])
        losses = []
        for step in range(state["step"], steps):
            if step == save_at:
                state.update(step=step, random=weft.random_state())
                weft.save(state, save_to)
            x = weft.distribute_tensor(torch.sin(torch.arange(24.0).view(4, 6) + step), mesh, [Replicate()])
            noise = weft.randn(4, 5, device_mesh=mesh, placements=[Replicate()])
            loss = (model(x) - noise).square().mean()
            loss.backward()
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            losses.append(loss.full_tensor().item())
        return losses

    return on_ranks(size, run)[0]


@pytest.mark.parametrize("other", [(3, [Shard(0)]), (1, [Replicate()]), (2, [Shard(1)])], ids=str)
def test_training_goes_on_on_another_mesh(tmp_path, other):
    expected = trained(2, [Shard(0)], 8, save_to=tmp_path / "step_4", save_at=4)
    resumed = trained(*other, 8, load_from=tmp_path / "step_4")
    assert torch.allclose(torch.tensor(expected[4:]), torch.tensor(resumed), rtol=1e-5)


def test_values_come_back_as_they_were(tmp_path):
    values = {
        "step": 7,
        "rate": 0.1,
        "name": "run",
        "none": None,
        "flags": [True, False],
        "pair": (1, (2.5, "x")),
        "by_number": {1: "a", (2, 3): [4]},
        "odd": {"tuple": 1},
        "large": 2**70,
        "infinite": [math.inf, -math.inf],
        "deep": {"a": {"b": {}}},
    }
    weft.save({**values, "nan": math.nan}, tmp_path / "c")
    loaded = weft.load({**dict.fromkeys(values), "nan": 0.0}, tmp_path / "c")
    assert math.isnan(loaded.pop("nan")) and loaded == values
    with pytest.raises(TypeError, match=r"\[save\] 'x' must be a tensor, a number, .* but got object"):
        weft.save({"x": object()}, tmp_path / "d")
    with pytest.raises(ValueError, match=r"it lacks 'epoch'"):
        weft.load({"epoch": 0}, tmp_path / "c")
    with pytest.raises(TypeError, match=r"\[save\] a dict, a module or an optimizer is required, but got int"):
        weft.save(3, tmp_path / "d")


def test_any_program_can_read_the_files(tmp_path):
    w = torch.randn(5, 4)

    def run(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        weft.save({"w": weft.distribute_tensor(w, mesh, [Shard(0)]), "z": w.to(torch.complex128)}, tmp_path / "c")

    on_ranks(2, run)
    manifest = json.loads((tmp_path / "c/checkpoint.json").read_text())
    rows = []
    for part in manifest["tensors"]["w"]["parts"]:
        stored = load_file(tmp_path / "c" / manifest["files"][part["file"]]["name"])["w"]
        begin, end = map(int, part["index"][0].split(":"))
        assert torch.equal(stored, w[begin:end])
        rows += range(begin, end)
    assert sorted(rows) == list(range(5))


def test_lists_and_nested_dicts_of_tensors_are_filled_in_place(tmp_path):
    state = {"a": [torch.ones(2), {"b": torch.ones(3)}], "c": (torch.ones(1), 5)}
    weft.save(state, tmp_path / "c")
    empty = {"a": [torch.zeros(2), {"b": torch.zeros(3)}], "c": (torch.zeros(1), 0)}
    first = empty["a"][0]
    loaded = weft.load(empty, tmp_path / "c")
    assert loaded is empty and first.tolist() == [1, 1] and empty["c"][1] == 5 and empty["a"][1]["b"].sum() == 3
    with pytest.raises(ValueError, match=r"every name must be there once, but 'a.b' is there twice"):
        weft.save({"a": {"b": torch.ones(1)}, "a.b": torch.ones(1)}, tmp_path / "d")


def test_a_module_on_meta_gets_its_memory(tmp_path):
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6))
    weft.save(model, tmp_path / "c")

    def run(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        with torch.device("meta"):
            other = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6))
        weft.parallelize_module(other, mesh, {"0": weft.ColwiseParallel()})
        weft.load(other, tmp_path / "c")
        assert torch.equal(weft.full_tensor(other[0].weight), model[0].weight)
        assert other[0].weight.placements == (Shard(0),) and torch.equal(other[1].running_var, torch.ones(6))

    on_ranks(2, run)


def test_a_damaged_checkpoint_or_one_of_another_model_says_so(tmp_path):
    weft.save({"w": torch.arange(1000.0)}, tmp_path / "c")
    with pytest.raises(ValueError, match=r"it lacks 'v'. Is it the checkpoint of another model\?"):
        weft.load({"v": torch.ones(2)}, tmp_path / "c")
    with pytest.raises(ValueError, match=r"'w' must have the shape \[1000\] that it was saved with, but got \[2\]"):
        weft.load({"w": torch.ones(2)}, tmp_path / "c")
    (file,) = (tmp_path / "c").glob("*.safetensors")
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)
    with pytest.raises(ValueError, match=rf"\[load\] {file}: tensor 'w' must have the checksum"):
        weft.load({"w": torch.ones(1000)}, tmp_path / "c")
    weft.load({"w": torch.ones(1000)}, tmp_path / "c", verify=False)
    file.write_bytes(data[:-1])
    with pytest.raises(ValueError, match="It was truncated"):
        weft.load({"w": torch.ones(1000)}, tmp_path / "c")
    with pytest.raises(ValueError, match="it is no checkpoint, or one that was never completed"):
        weft.load({"w": torch.ones(2)}, tmp_path)


def test_an_asynchronous_save_writes_what_was_there_when_it_was_called(tmp_path):
    def run(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        saver = weft.AsyncSaver()
        w = weft.zeros(1000, 100, device_mesh=mesh, placements=[Shard(0)])
        for step in range(4):
            w.fill_(step)
            saver.save({"w": w, "step": step}, tmp_path / f"step_{step}", keep_last=2)
            w.fill_(-1)
            w.sum().full_tensor()
        saver.wait()

    on_ranks(2, run)
    assert weft.latest_checkpoint(tmp_path) == str(tmp_path / "step_3")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step_2", "step_3"]
    for step in (2, 3):
        state = weft.load({"w": torch.zeros(1000, 100), "step": 0}, tmp_path / f"step_{step}")
        assert state["step"] == step and (state["w"] == step).all()


def test_an_error_of_one_rank_is_raised_on_all(tmp_path):
    errors, lock = [], threading.Lock()

    def run(rank):
        try:
            weft.save({"x": torch.full((3,), float(rank))}, tmp_path / "c")
        except ValueError as error:
            with lock:
                errors.append(str(error))

    on_ranks(3, run)
    assert len(errors) == 3 and len(set(errors)) == 1 and "those of ranks 0 and 1 differ" in errors[0]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_state_that_one_rank_cannot_save_is_an_error_of_all(tmp_path, is_async):
    odd = {
        "object": ({"x": object()}, "'x' must be a tensor, a number,"),
        "text": ("no state", "a dict, a module or an optimizer is required, but got str"),
        "meta": ({"x": torch.ones(2, device="meta")}, "'x' must have values, but it is on meta"),
        "twice": ({"a.b": 1, "a": {"b": torch.ones(1)}}, "'a.b' is there twice"),
    }
    errors, lock = [], threading.Lock()

    def run(rank):
        saver = weft.AsyncSaver()

        def save(state, folder):
            if not is_async:
                return weft.save(state, folder)
            saver.save(state, folder)
            saver.wait()

        for name, (state, text) in odd.items():
            with pytest.raises((TypeError, ValueError), match=text) as error:
                save(state if rank == 1 else {"x": 1}, tmp_path / name)
            with lock:
                errors.append(str(error.value))
        save({"x": 1}, tmp_path / "good")

    on_ranks(3, run)
    assert sum("(on rank 1)" in error for error in errors) >= 2 * len(odd)
    assert weft.load({"x": 0}, tmp_path / "good") == {"x": 1}
    assert [path.name for path in tmp_path.iterdir() if (path / "checkpoint.json").exists()] == ["good"]


def test_a_checkpoint_can_be_moved(tmp_path):
    weft.save({"w": torch.ones(3)}, tmp_path / "c")
    shutil.move(tmp_path / "c", tmp_path / "d")
    assert weft.load({"w": torch.zeros(3)}, tmp_path / "d")["w"].sum() == 3
