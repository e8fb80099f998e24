"""The programs of docs/tutorial.md, started as it says, print what it says."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BEFORE_OPTIMIZER = "optimizer = "


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)


def programs():
    before, change, layouts, report = blocks("python")
    assert len([line for line in change.splitlines() if line]) <= 12, "about ten lines are promised"
    after = before.replace(BEFORE_OPTIMIZER, change + BEFORE_OPTIMIZER)
    # A rank prints its text at once, so that the lines of ranks do not mix; only the first rank's are compared.
    quiet = "import os, builtins\nprint = builtins.print if os.environ['RANK'] == '0' else lambda *_: None\n"
    return before, quiet + after + layouts + report


def lines(text):
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.fixture
def run(tmp_path):
    def run(command, program):
        path = tmp_path / "program.py"
        path.write_text(program)
        environment = dict(os.environ, OMP_NUM_THREADS="1", TORCH_CPP_LOG_LEVEL="ERROR")
        result = subprocess.run([*command, str(path)], capture_output=True, text=True, timeout=240, env=environment)
        assert result.returncode == 0, result.stderr
        return lines(result.stdout)

    return run


def test_on_one_device(run):
    assert run([sys.executable], programs()[0]) == lines(blocks("text")[0])


def test_on_four_ranks(run):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4"]
    assert run(torchrun, programs()[1]) == lines("".join(blocks("text")[1:]))


def test_the_losses_are_the_same():
    before, after, *_ = blocks("text")
    assert before == after
