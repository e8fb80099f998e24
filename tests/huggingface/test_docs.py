"""The programs of docs/huggingface.md run, one after the other, in two processes."""

import pathlib
import re
import subprocess
import sys

import torch
from architectures import ARCHITECTURES

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "huggingface.md"

# What the page leaves to its reader: a model and data.
BEFORE = """
import torch
path, new_path = {path!r}, {new_path!r}
dataset = [{{"input_ids": row, "labels": row}} for row in torch.arange(3, 63).view(6, 10)]
"""

TP_PLAN = """
import torch
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained({path!r}, tp_plan="auto")
tokens = torch.tensor([[3, 14, 15, 9, 2]])
loss = model(input_ids=tokens, labels=tokens).loss
loss.backward()
print("loss", round(loss.item(), 4))
"""


def run(folder, program, *options):
    """What each rank has printed. Each prints to a file of its own: in one pipe their lines could mix."""
    file, logs = folder / "program.py", folder / "logs"
    file.write_text(program)
    torchrun = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    torchrun += ["--log-dir", logs, "--redirects", "1"]
    result = subprocess.run([*torchrun, *options, file], capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    printed = [file.read_text() for file in sorted(logs.glob("*/attempt_0/*/stdout.log"))]
    assert len(printed) == 2
    return printed


def test_the_programs_run(tmp_path):
    ARCHITECTURES["Llama"].make().save_pretrained(tmp_path / "model")
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert len(blocks) == 6
    before = BEFORE.format(path=str(tmp_path / "model"), new_path=str(tmp_path / "trained"))
    printed = run(tmp_path, before + "".join(blocks).replace("(2, 2)", "(2, 1)"))
    assert all("tensor([[ 3, 14, 15,  9,  2," in text for text in printed)
    assert [text.count("train_runtime") for text in printed] == [3, 0]  # the first rank alone logs
    assert (tmp_path / "trained" / "checkpoint-3").is_dir()


def test_a_program_with_tp_plan_runs_as_it_is(tmp_path):
    model = ARCHITECTURES["Llama"].make()
    model.save_pretrained(tmp_path)
    tokens = torch.tensor([[3, 14, 15, 9, 2]])
    expected = round(model(input_ids=tokens, labels=tokens).loss.item(), 4)
    printed = run(tmp_path, TP_PLAN.format(path=str(tmp_path)), "-m", "weft")
    assert [f"loss {expected}\n" in text for text in printed] == [True, True]
