"""PyTorch's OpInfo database against Weft: every operator on two ranks, its results and gradients compared with those of
plain tensors.

    python tests/python/op_db.py                          # eight samples of every operator
    python tests/python/op_db.py --samples 0 --write docs/op_db.md
    python tests/python/op_db.py --only linalg.svd --samples 0 --verbose

Cases run in a process of their own, so that one that crashes or hangs is that case's failure and not the end. A case is
one sample of an operator, one layout of its tensors, and either the results or the gradients.
"""

import argparse
import collections
import contextlib
import json
import os
import re
import select
import subprocess
import sys
import tempfile

OUTCOMES = ("correct", "random", "refused", "wrong", "hang", "crash")
DEFAULT_SAMPLES = 8
CASE_SECONDS = 60  # a process that says nothing for so long hangs


class Worker:
    """The process that runs cases."""

    def __init__(self):
        self.errors = tempfile.TemporaryFile()
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore", TORCH_CPP_LOG_LEVEL="ERROR")
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "op_db_cases.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=environment,
        )  # fmt: skip
        self.rest = b""
        self.hello = self.read(600)
        if not isinstance(self.hello, dict):
            raise RuntimeError(f"the process that runs cases did not start: {self.last_words()}")

    def ask(self, *message):
        self.process.stdin.write((json.dumps(message) + "\n").encode())
        self.process.stdin.flush()

    def read(self, seconds):
        """The next message; "hang" or "crash" where there is none."""
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], seconds)[0]:
                return "hang"
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                return "crash"
            self.rest += data
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def last_words(self):
        self.errors.seek(0)
        return self.errors.read()[-600:].decode(errors="replace")

    def end(self):
        self.process.kill()
        self.process.wait()
        return self.process.returncode


class Table:
    """Counts of outcomes by operator, and what was said of those that are not correct."""

    def __init__(self, samples, torch_version, not_on_cpu):
        self.samples, self.torch_version, self.not_on_cpu = samples, torch_version, not_on_cpu
        self.counts = {}
        self.texts = collections.defaultdict(collections.Counter)  # by operator and outcome
        self.unusable = {}  # operators with samples that plain tensors cannot run, and what those say

    def add(self, name, outcome, text):
        self.counts[name][outcome] += 1
        if text:
            self.texts[name, outcome][text] += 1

    def total(self):
        return sum(self.counts.values(), collections.Counter())

    def share_correct(self):
        total = self.total()
        return (total["correct"] + total["random"]) / max(1, sum(total.values()))

    def failures(self):
        """One line per operator with a wrong result, a hang or a crash."""
        return [
            f"{name}: {counts[outcome]} {outcome}: {self.texts[name, outcome].most_common(1)}"
            for name, counts in self.counts.items()
            for outcome in ("wrong", "hang", "crash")
            if counts[outcome]
        ]

    def summary(self):
        total = self.total()
        parts = ", ".join(f"{total[outcome]:,} {outcome}" for outcome in OUTCOMES)
        operators = sum(1 for counts in self.counts.values() if counts)
        return f"{operators} operators, {sum(total.values()):,} cases: {parts}; {100 * self.share_correct():.2f}% correct"

    def document(self):
        command = f"python tests/python/op_db.py --samples {self.samples} --write docs/op_db.md"
        by_float64 = sum(texts["by float64"] for texts in self.texts.values())
        refused = {name: counts["refused"] for name, counts in self.counts.items() if counts["refused"]}
        without_tensors = sorted(name for name, counts in self.counts.items() if not counts and name not in self.unusable)
        lines = [
            *INTRODUCTION.format(command=command, torch=self.torch_version, by_float64=f"{by_float64:,}").splitlines(),
            "", f"**{self.summary()}.**",
            "", "## What is refused",
            "", "| operator | cases | what most of them say |", "|---|---|---|",
            *(f"| {name} | {count} | {self.reason(name)} |" for name, count in sorted(refused.items())),
            "", "## What is not run",
            "", "No tensor goes in: " + ", ".join(without_tensors) + ".",
            "", "No kernel for CPUs: " + ", ".join(self.not_on_cpu) + ".",
            *(f"\n{name}: samples of which plain tensors raise ({text})" for name, text in sorted(self.unusable.items())),
            "", "## All operators",
            "", "| operator | " + " | ".join(OUTCOMES) + " |", "|---|" + "---|" * len(OUTCOMES),
            *(
                f"| {name} | " + " | ".join(str(counts[outcome] or "") for outcome in OUTCOMES) + " |"
                for name, counts in sorted(self.counts.items())
                if counts
            ),
        ]  # fmt: skip
        return "\n".join(lines) + "\n"

    def reason(self, name):
        text = self.texts[name, "refused"].most_common(1)[0][0].replace("|", "\\|")
        return text if len(text) <= 200 else text[:200].rsplit(" ", 1)[0] + " …"


INTRODUCTION = """\
# Operators compared with plain tensors

Every operator of PyTorch's OpInfo database, on two ranks: the samples of the database with all tensors replicated,
sharded by the first dim and sharded by the last, results and gradients, each a case. Samples are of float32, or, of
operators that do not take it, of int64, complex64 or float8. Forms in place (add_) are operators of their own, with the
samples whose result fits into the input. Made by

    {command}

under torch {torch}; `make test` runs a few samples of each.

- *correct*: equal to what plain tensors give, on both ranks, within torch's own tolerance for float32 (1.3e-6 of the
  value and 1e-5). In {by_float64} cases float32 rounds more than that: those are at most four times as far from the float64
  result as plain tensors are. Of uninitialised memory (empty_like), shape and dtype are compared.
- *random*: numbers are drawn, which cannot be torch's: shape and dtype are those of plain tensors, both ranks agree, and
  sharded tensors give the same numbers as replicated ones. Counts as correct in the percentage below.
- *refused*: raises, on both ranks, and says why. A result that is refused has no gradient either: that counts as well.
- *wrong*, *hang*, *crash*: none may be.
"""


def run_all(samples=DEFAULT_SAMPLES, only=None, verbose=False, log=None):
    """A Table of all operators, or of those whose name matches `only`."""
    worker = Worker()
    hello = worker.hello
    table = Table(samples, hello["torch"], sorted(set(hello["all"]) - set(hello["names"])))
    for name in hello["names"]:
        if only is not None and not re.fullmatch(only, name):
            continue
        table.counts[name] = collections.Counter()
        done = 0
        worker.ask(name, samples, done)
        while True:
            message = worker.read(CASE_SECONDS)
            if isinstance(message, str):
                code = worker.end()
                done += 1
                table.add(name, message, f"case {done}, exit code {code}: {worker.last_words()}")
                worker = Worker()
                worker.ask(name, samples, done)
                continue
            if "done" in message:
                break
            done = message["case"]
            for kind, (outcome, text) in message["outcomes"].items():
                table.add(name, outcome, text)
                if log:
                    log.write(json.dumps([name, message["sample"], message["layout"], kind, outcome, text]) + "\n")
        if message["unusable"]:
            table.unusable[name] = message["unusable"]
        if verbose:
            print(name, dict(table.counts[name]), table.unusable.get(name, ""), flush=True)
            for outcome in OUTCOMES:
                for text, count in table.texts[name, outcome].most_common(3):
                    print(f"    {outcome} {count}x {text}", flush=True)
    worker.end()
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--samples", type=int, default=DEFAULT_SAMPLES, help="of each operator at most; 0 for all")
    parser.add_argument("--only", help="operators whose full name matches this pattern")
    parser.add_argument("--write", help="a file for the table")
    parser.add_argument("--log", help="a file for one line per case")
    parser.add_argument("--verbose", action="store_true", help="print how each operator went")
    arguments = parser.parse_args()
    with open(arguments.log, "w") if arguments.log else contextlib.nullcontext() as log:
        table = run_all(arguments.samples, arguments.only, arguments.verbose, log)
    print(table.summary())
    for line in table.failures():
        print(line)
    if arguments.write:
        with open(arguments.write, "w") as file:
            file.write(table.document())


if __name__ == "__main__":
    main()
