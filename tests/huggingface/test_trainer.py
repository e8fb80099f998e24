"""transformers' Trainer under torchrun, on tp and on dp x tp: the losses and the saved model of one process."""

import json
import pathlib
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load_file

PROGRAM = pathlib.Path(__file__).with_name("train_program.py")


def train(folder, dp, tp):
    folder.mkdir()
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(dp * tp)] if dp * tp > 1 else []
    subprocess.run([sys.executable, "-W", "ignore", *torchrun, PROGRAM, folder, str(dp), str(tp)], check=True, timeout=300)
    return json.loads((folder / "losses.json").read_text()), load_file(folder / "model" / "model.safetensors")


@pytest.mark.parametrize("dp, tp", [(1, 2), (2, 2)])
def test_trains_as_one_process_does(tmp_path, dp, tp):
    expected, expected_model = train(tmp_path / "one", 1, 1)
    losses, model = train(tmp_path / "many", dp, tp)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert len(losses) == 7
    torch.testing.assert_close(model, expected_model, rtol=1e-3, atol=1e-4)
