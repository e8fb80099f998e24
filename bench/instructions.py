"""Instructions of a cached call on distributed tensors and of the same call on their local ones, counted by callgrind in
the cases of the benchmark 'dispatch'. They hardly move from run to run, whatever else the machine does. Limit: at most
4,000 over the local call."""

import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from dispatch import CASES
from ranks import progress
from rows import aligned

CALLS = 10
LIMIT = 4000


@dataclass(frozen=True)
class Instructions:
    case: str
    local: int
    distributed: int

    @property
    def overhead(self):
        return self.distributed - self.local

    def to_json(self):
        return json.dumps({"bench": "instructions", **asdict(self), "overhead": self.overhead})


def counted(program):
    """The instructions of each dump that the program makes, by its name."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/dump", program]
        # One instruction of the processor fills or copies many bytes, and valgrind counts each of them: not used, then.
        thresholds = ":".join(f"glibc.cpu.x86_rep_{name}_threshold={1 << 40}" for name in ("stosb", "movsb"))
        environment = os.environ | {"GLIBC_TUNABLES": thresholds}
        done = subprocess.run([str(word) for word in command], stderr=subprocess.PIPE, text=True, env=environment)
        if done.returncode != 0:
            raise RuntimeError(f"{program} under valgrind ended with status {done.returncode}: {done.stderr.strip()}")
        counts = {}
        for dump in Path(folder).iterdir():
            text = dump.read_text()
            name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
            if name:
                counts[name[1]] = int(re.search(r"^summary: (\d+)", text, re.MULTILINE)[1])
        return counts


def run(settings):
    program = settings.programs / "instructions_main"
    if shutil.which("valgrind") is None or not program.is_file():
        raise RuntimeError("the benchmark 'instructions' needs valgrind: run scripts/setup, then configure the build anew")
    progress("instructions: one run under valgrind, up to a minute")
    counts = counted(program)
    for case in CASES:
        yield Instructions(case, counts[f"{case} local"] // CALLS, counts[f"{case} distributed"] // CALLS)


def table(rows):
    lines = [["case", "local", "distributed", "over"]]
    lines += [[row.case, *(f"{n:,}" for n in (row.local, row.distributed, row.overhead))] for row in rows]
    most = max(rows, key=lambda row: row.overhead)
    missed = "" if most.overhead <= LIMIT else " is MISSED"
    return f"{aligned(lines)}\n\nmost over the local call, {most.case}: {most.overhead:,}, at most {LIMIT:,}{missed}"
