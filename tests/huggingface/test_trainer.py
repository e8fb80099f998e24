"""transformers' Trainer and accelerate under torchrun, on tp and on dp x tp: the logs and the saved model of one process."""

import json
import pathlib
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

PROGRAM = pathlib.Path(__file__).with_name("train_program.py")


def train(folder, dp, tp):
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(dp * tp)] if dp * tp > 1 else []
    subprocess.run([sys.executable, "-W", "ignore", *torchrun, PROGRAM, folder, str(dp), str(tp)], check=True, timeout=300)
    return json.loads((folder / "logs.json").read_text()), folder


@pytest.fixture(scope="module")
def of_one_process(tmp_path_factory):
    return train(tmp_path_factory.mktemp("one"), 1, 1)


@pytest.mark.parametrize("dp, tp", [(1, 2), (2, 1), (2, 2)])
def test_trains_as_one_process_does(of_one_process, tmp_path, dp, tp):
    expected, expected_folder = of_one_process
    logs, folder = train(tmp_path, dp, tp)
    assert [len(each) for each in logs.values()] == [8, 8, 8, 8]
    for name, each in logs.items():
        assert each == pytest.approx(expected[name], rel=1e-4), name
    assert logs["resumed"] == pytest.approx(logs["trained"], rel=1e-4)
    model, expected_model = (load_file(of / "model" / "model.safetensors") for of in (folder, expected_folder))
    torch.testing.assert_close(model, expected_model, rtol=1e-3, atol=1e-4)
    states, expected_states = (torch.load(of / "checkpoint-2" / "optimizer.pt")["state"] for of in (folder, expected_folder))
    torch.testing.assert_close(states, expected_states, rtol=1e-3, atol=1e-5)


class Cache:
    """A container of tensors that pytree is told of, and fails to take apart: as Mamba's cache is once transformers.integrations
    has registered its caches for torch.export."""

    def __init__(self, states):
        self.states = states


def test_outputs_may_hold_a_container_that_pytree_cannot_take_apart():
    import torch.utils._pytree as pytree
    import weft
    from weft._huggingface import trainer

    def fails(cache):
        raise AttributeError("'Cache' object has no attribute 'layers'")

    pytree.register_pytree_node(Cache, fails, fails)
    mesh = weft.init_device_mesh("cpu", (1,))
    loss, cache = weft.from_local(torch.ones(2), mesh), Cache(torch.ones(2))
    got = trainer._prediction_step(lambda self: (loss, {"logits": loss, "cache": cache}, None), None)
    assert got[1]["cache"] is cache and got[2] is None
    assert not any(map(weft.is_dtensor, (got[0], got[1]["logits"]))) and torch.equal(got[0], torch.ones(2))
