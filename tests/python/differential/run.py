"""Random programs of ordinary PyTorch code, on distributed and on plain tensors: everything must agree.

    python tests/python/differential/run.py --seeds 0:2000 --jobs 4          # seeds take turns over all kinds
    python tests/python/differential/run.py --seeds 0:500 --kind writes
    python tests/python/differential/run.py --one 17 --kind writes --shrink

Programs run in worker processes. One that says nothing for PROGRAM_SECONDS hangs, one that ends has crashed: either is a
failure of the program it was running, and another worker goes on with the next seed.
"""

import argparse
import collections
import contextlib
import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
import time

PROGRAM_SECONDS = 60
STARTING_SECONDS = 240  # for a worker's first program, before which it imports torch
SHRINKING_SECONDS = 240  # for making a failing program smaller
MAX_SHRUNK = 100  # failures; later ones are printed as they are
PROGRESS_SECONDS = 10
KINDS = ("operators", "writes", "training", "modules", "meta", "threads")


class Worker:
    def __init__(self):
        self.errors = tempfile.TemporaryFile()
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore", TORCH_CPP_LOG_LEVEL="ERROR")
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "worker.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=environment,
        )  # fmt: skip
        self.seed = None
        self.unshrunk = None  # the failure that this worker is making smaller
        self.is_new = True

    def start(self, seed, kind, unshrunk=None):
        self.seed, self.unshrunk = seed, unshrunk
        seconds = SHRINKING_SECONDS if unshrunk else STARTING_SECONDS if self.is_new else PROGRAM_SECONDS
        self.deadline, self.is_new = time.monotonic() + seconds, False
        with contextlib.suppress(BrokenPipeError):  # the answer will say that it has ended
            self.process.stdin.write((json.dumps([seed, kind, unshrunk is not None]) + "\n").encode())
            self.process.stdin.flush()

    def answer(self):
        """What the worker says of its seed, or that it has ended."""
        line = self.process.stdout.readline()
        return json.loads(line) if line.endswith(b"\n") else self.lost("crash")

    def lost(self, what):
        self.process.kill()
        code = self.process.wait()
        self.errors.seek(0)
        last_words = self.errors.read()[-1500:].decode(errors="replace")
        failure = f"{what}\nexit code {code}; `run.py --one {self.seed}` prints the program: {last_words}"
        return {"seed": self.seed, "kind": "?", "steps": 0, "refused": [], "failure": failure}

    def end(self):
        self.process.kill()
        self.process.wait()


def form_of(answer):
    """What failures of one cause have in common: the kind of failure, and the steps without names, numbers and inputs."""
    steps = [line for line in answer.get("program", "").split("\n") if " = tensor(" not in line and not line.startswith("#")]
    return answer["failure"].split("\n")[0], re.sub(r"\b[a-z]\d+\b|-?\d+(\.\d+)?", "_", "\n".join(steps))


class Summary:
    def __init__(self):
        self.programs, self.steps = collections.Counter(), 0
        self.refused = collections.Counter()
        self.failures = []

    def add(self, answer):
        self.programs[answer["kind"]] += 1
        self.steps += answer["steps"]
        self.refused.update(answer["refused"])
        if answer["failure"]:
            self.failures.append(answer)

    def text(self):
        lines = []
        groups = collections.defaultdict(list)
        for answer in self.failures:
            groups[form_of(answer)].append(answer)
        for answers in sorted(groups.values(), key=len):
            smallest = min(answers, key=lambda answer: len(answer.get("program", "")))
            lines += [f"==== {len(answers)} failures, seeds " + " ".join(str(answer["seed"]) for answer in answers[:20])]
            lines += [smallest["failure"], smallest.get("program", ""), ""]
        lines.append("accepted errors:")
        lines += [f"{count:8} {kind}" for kind, count in self.refused.most_common()]
        lines.append("failures:")
        kinds = collections.Counter(f"{answer['kind']}: {answer['failure'].splitlines()[0]}" for answer in self.failures)
        lines += [f"{count:8} {kind}" for kind, count in kinds.most_common()]
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(self.programs.items()))
        total = sum(self.programs.values())
        lines.append(f"{total} programs ({counts}), {self.steps} steps, {len(self.failures)} failures")
        return "\n".join(lines)


class Pool:
    """Workers and the seeds that they are still to run."""

    def __init__(self, seeds, kind, shrink):
        self.waiting, self.kind, self.shrink = collections.deque(seeds), kind, shrink
        self.summary, self.workers, self.selector = Summary(), set(), selectors.DefaultSelector()

    def hire(self):
        worker = Worker()
        self.workers.add(worker)
        self.selector.register(worker.process.stdout, selectors.EVENT_READ, worker)
        worker.start(self.waiting.popleft(), self.kind)

    def retire(self, worker):
        self.selector.unregister(worker.process.stdout)
        self.workers.remove(worker)
        worker.end()

    def take(self, worker, answer):
        """Counts an answer, or has its failure made smaller, and gives the worker the next seed."""
        is_alive = worker.process.poll() is None
        if worker.unshrunk:
            answer = answer if is_alive and answer["failure"] else worker.unshrunk
        elif answer["failure"] and is_alive and self.shrink and len(self.summary.failures) < MAX_SHRUNK:
            worker.start(worker.seed, self.kind, answer)
            return
        self.summary.add(answer)
        if is_alive and self.waiting:
            worker.start(self.waiting.popleft(), self.kind)
            return
        self.retire(worker)
        if self.waiting:
            self.hire()

    def wait(self):
        ready = {key.data for key, _ in self.selector.select(1)}
        for worker in list(self.workers):
            if worker in ready:
                self.take(worker, worker.answer())
            elif time.monotonic() > worker.deadline:
                self.take(worker, worker.lost("hang"))


def run_all(seeds, jobs, kind=None, shrink=False, progress=None):
    """A Summary of the programs of these seeds."""
    pool = Pool(seeds, kind, shrink)
    began = shown = time.monotonic()
    for _ in range(min(jobs, len(pool.waiting))):
        pool.hire()
    while pool.workers:
        pool.wait()
        if progress and time.monotonic() - shown > PROGRESS_SECONDS:
            shown, done, failures = time.monotonic(), sum(pool.summary.programs.values()), len(pool.summary.failures)
            print(f"{done} programs, {done / (shown - began):.1f}/s, {failures} failures", file=progress, flush=True)
    return pool.summary


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--seeds", default="0:150", help="first:end")
    parser.add_argument("--one", type=int, help="this seed alone; prints its program")
    parser.add_argument("--kind", choices=KINDS, help="this kind alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="worker processes")
    parser.add_argument("--shrink", action="store_true", help="make failing programs smaller")
    arguments = parser.parse_args()
    first, end = (arguments.one, arguments.one + 1) if arguments.one is not None else map(int, arguments.seeds.split(":"))
    if arguments.one is not None:
        sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        from differential.kinds import generate

        print(generate(arguments.one, arguments.kind).text(), end="\n\n", flush=True)
    summary = run_all(range(first, end), arguments.jobs, arguments.kind, arguments.shrink, sys.stderr)
    print(summary.text())
    return 1 if summary.failures else 0


if __name__ == "__main__":
    sys.exit(main())
