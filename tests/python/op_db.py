"""PyTorch's OpInfo database against Weft: every operator on two ranks, its results and gradients beside those of plain
tensors.

    python tests/python/op_db.py                          # eight samples of every operator
    python tests/python/op_db.py --samples 0 --write docs/op_db.md
    python tests/python/op_db.py --only linalg.svd --samples 0 --verbose

Cases run in a process of their own, so that one that crashes or hangs is that case's failure and not the end. A case is
one sample of an operator, one layout of its tensors, and either the results or the gradients.
"""

import argparse
import collections
import contextlib
import functools
import importlib.util
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import types
import unittest
import warnings

LAYOUTS = ("replicated", "first", "last")
OUTCOMES = ("correct", "random", "refused", "wrong", "hang", "crash")
DEFAULT_SAMPLES = 8
CASE_SECONDS = 60  # a process that says nothing for so long hangs
COLLECTIVE_SECONDS = 5

# What they give is memory that nobody has written to: shape and dtype are compared alone.
UNINITIALISED = {
    "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_",
}  # fmt: skip


class UnlockedProperty(functools.cached_property):
    """Until Python 3.11 a cached property is computed under a lock of all threads: ranks as threads, that wait for each
    other inside of it, would wait for ever. Torch has some in its modules."""

    def __init__(self, function):
        super().__init__(function)
        self.lock = contextlib.nullcontext()


class Wrong(Exception):
    """A result that is not that of plain tensors."""


class Hang(Exception):
    """Ranks that would wait for each other."""


def name_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


def spread(samples, count):
    """`count` of them, from the first to the last."""
    if count <= 0 or len(samples) <= count:
        return samples
    return [samples[i * (len(samples) - 1) // (count - 1)] for i in range(count)] if count > 1 else samples[:1]


# ---- one operator, in the process that runs cases


class Runner:
    """The cases of one operator after another; says how each went."""

    def __init__(self, say):
        functools.cached_property = UnlockedProperty
        # The base of torch's own test cases, none of which is run: any other will do.
        if importlib.util.find_spec("expecttest") is None:
            sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
        import torch
        import weft
        from torch.testing._internal.common_methods_invocations import op_db
        from torch.utils import _pytree

        self.torch, self.weft, self.tree, self.say = torch, weft, _pytree, say
        self.operators = {name_of(op): op for op in op_db}
        self.names = [name_of(op) for op in op_db if torch.float32 in op.supported_dtypes("cpu")]
        torch.set_num_threads(1)

    def run(self, name, samples, begin):
        op = self.operators[name]
        torch = self.torch
        torch.manual_seed(0)
        all_samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=op.supports_autograd))
        number = 0
        for i, sample in enumerate(spread(all_samples, samples)):
            plain = None
            for layout in LAYOUTS:
                if not self.differs(sample, layout):
                    continue
                number += 1
                if number <= begin:
                    continue
                plain = plain or Case(self, op, name, sample)
                outcomes = plain.outcomes(layout)
                self.say({"op": name, "case": number, "sample": i, "layout": layout, "outcomes": outcomes})

    def tensors(self, value):
        return [x for x in self.tree.tree_leaves(value) if isinstance(x, self.torch.Tensor)]

    def differs(self, sample, layout):
        """Whether a layout is not the same as one before it. A sample without tensors has none."""
        dims = [t.dim() for t in self.tensors((sample.input, sample.args, sample.kwargs))]
        least = {"replicated": 0, "first": 1, "last": 2}[layout]
        return any(dim >= least for dim in dims)


class Result:
    """What a call gave: the leaves of its results and the gradients of its inputs, or why there are none."""

    def __init__(self):
        self.values = None
        self.gradients = None
        self.error = None


class Case:
    """One sample of an operator."""

    def __init__(self, runner, op, name, sample):
        self.torch, self.weft, self.tree = runner.torch, runner.weft, runner.tree
        self.op, self.name, self.sample = op, name, sample
        self.rtol, self.atol = 1.3e-6, 1e-5  # torch's own for float32
        self.expected, draws = self.plain(0)
        self.is_random = draws and not self.agree(self.expected, self.plain(1)[0])
        self.exact = None  # what float64 gives, where it is asked for
        self.by_float64 = 0
        self.replicated = None  # of a random operator: what the other layouts are compared with

    def plain(self, seed):
        """What plain tensors give, and whether random numbers were drawn. Entries of the database seed for themselves."""
        torch, seed_all = self.torch, self.torch.manual_seed
        seeds = []

        def manual_seed(own):
            seeds.append(own)
            return seed_all(own + seed)

        seed_all(seed)
        before = torch.get_rng_state()
        torch.manual_seed = manual_seed
        try:
            result = self.call(lambda t: t, lambda t: t)
        finally:
            torch.manual_seed = seed_all
        return result, bool(seeds) or not torch.equal(before, torch.get_rng_state())

    def agree(self, one, other):
        try:
            self.compare(one.values, other.values, "")
        except Wrong:
            return False
        return True

    def call(self, distribute, cotangent):
        """Runs the sample with `distribute` applied to its tensors. Raises what the operator does."""
        torch, tree = self.torch, self.tree
        made = {}

        def copy(leaf):
            if not isinstance(leaf, torch.Tensor):
                return leaf
            if id(leaf) not in made:
                tensor = distribute(leaf.detach().clone())
                made[id(leaf)] = tensor.requires_grad_() if leaf.requires_grad else tensor
            return made[id(leaf)]

        sample = self.sample
        input, args, kwargs = tree.tree_map(copy, (sample.input, sample.args, sample.kwargs))
        result = Result()
        out = self.op(input, *args, **kwargs)
        result.values = tree.tree_leaves(out)
        inputs = [t for t in made.values() if t.requires_grad and t.is_leaf]
        if not (self.op.supports_autograd and inputs):
            return result
        processed = sample.output_process_fn_grad(out) if sample.output_process_fn_grad else out
        outs = [
            t
            for t in tree.tree_leaves(processed)
            if isinstance(t, torch.Tensor) and t.requires_grad and (t.is_floating_point() or t.is_complex())
        ]
        if outs:
            try:
                result.gradients = torch.autograd.grad(
                    outs, inputs, [cotangent(self.numbers_like(t, i)) for i, t in enumerate(outs)], allow_unused=True
                )
            except Exception as error:
                result.error = error
        return result

    def numbers_like(self, tensor, seed):
        torch = self.torch
        generator = torch.Generator().manual_seed(seed)
        dtype = torch.complex64 if tensor.is_complex() else torch.float32
        return torch.randn(tensor.shape, dtype=dtype, generator=generator).to(tensor.dtype)

    # -- on two ranks

    def on_ranks(self, layout):
        """(values, gradients) or an error for each; what is raised before there are values is raised here."""
        torch, weft = self.torch, self.weft
        failed = {}

        def rank_program(rank):
            weft.manual_seed(0)
            mesh = weft.init_device_mesh("cpu", (2,))

            def distribute(tensor):
                dim = {"replicated": None, "first": 0, "last": tensor.dim() - 1}[layout]
                placement = weft.Replicate() if dim is None or tensor.dim() == 0 else weft.Shard(dim)
                return weft.distribute_tensor(tensor, mesh, [placement])

            def cotangent(tensor):
                return weft.distribute_tensor(tensor, mesh, [weft.Replicate()])

            def whole(value):
                if not isinstance(value, torch.Tensor):
                    return value
                value = value.detach()
                return (weft.full_tensor(value) if weft.is_dtensor(value) else value).clone()

            try:
                result = self.call(distribute, cotangent)
                requires_grad = [t.requires_grad for t in result.values if isinstance(t, torch.Tensor)]
                result.values = [whole(t) for t in result.values]
                result.requires_grad = requires_grad
            except Exception as error:
                failed[rank] = error
                raise
            try:
                if result.error is not None:
                    raise result.error
                if result.gradients is not None:
                    result.gradients = [whole(t) for t in result.gradients]
            except Exception as error:
                result.error = failed[rank] = error  # the results are kept
            return result

        try:
            results = weft.run_on_ranks(2, rank_program, timeout=COLLECTIVE_SECONDS)
        finally:
            self.check_all_failed(failed)
        return results

    def check_all_failed(self, failed):
        """An error that not all ranks have found for themselves leaves the others waiting where ranks are processes."""
        for error in failed.values():
            text = str(error)
            if re.search(r"was not complete within|timed out|which has left|it failed with|it has returned", text):
                raise Hang(" / ".join(one_line(e) for e in failed.values()))
        if len(failed) == 1:
            raise Hang("one rank alone raises: " + one_line(next(iter(failed.values()))))

    def outcomes(self, layout):
        """{"result": (outcome, text), "gradient": ...}"""
        has_gradient = self.expected.gradients is not None
        kinds = ["result", "gradient"] if has_gradient else ["result"]
        try:
            first, second = self.on_ranks(layout)
        except Hang as error:
            return {kind: ("hang", str(error)) for kind in kinds}
        except Exception as error:
            return {kind: ("refused", one_line(error)) for kind in kinds}
        reference = self.expected
        if self.is_random:
            self.replicated = self.replicated or (first if layout == "replicated" else self.on_ranks("replicated")[0])
            reference = self.replicated
        outcomes = {"result": self.judge(lambda: self.check_values(first, second, reference))}
        if has_gradient:
            outcomes["gradient"] = self.judge(lambda: self.check_gradients(first, second, reference))
        return outcomes

    def judge(self, check):
        self.by_float64 = 0
        try:
            check()
        except Wrong as error:
            return "wrong", one_line(error)
        except Exception as error:
            return "refused", one_line(error)
        return ("random" if self.is_random else "correct"), ("by float64" if self.by_float64 else "")

    def check_values(self, first, second, reference):
        plain = [t.requires_grad for t in self.expected.values if isinstance(t, self.torch.Tensor)]
        self.compare(first.values, self.expected.values, "", values=not self.is_random, exact=lambda: self.in_float64().values)
        if first.requires_grad != plain:
            raise Wrong(f"requires_grad is {first.requires_grad}, not {plain}")
        if self.is_random:
            self.compare(first.values, reference.values, "against replicated, ")
        self.compare(second.values, first.values, "against the other rank, ")

    def check_gradients(self, first, second, reference):
        if first.error is not None:
            raise first.error
        if first.gradients is None:
            raise Wrong("no gradient where plain tensors have one")
        self.compare(
            first.gradients, self.expected.gradients, "gradient ",
            values=not self.is_random, exact=lambda: self.in_float64().gradients,
        )  # fmt: skip
        if self.is_random:
            self.compare(first.gradients, reference.gradients, "gradient against replicated, ")
        self.compare(second.gradients, first.gradients, "gradient against the other rank, ")

    def in_float64(self):
        torch = self.torch
        wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}
        self.exact = self.exact or self.call(lambda t: t.to(wide.get(t.dtype, t.dtype)), lambda t: t)
        return self.exact

    def compare(self, actual, expected, what, values=True, exact=None):
        """Raises Wrong. `exact` gives what float64 does, for numbers in which float32 rounds more than is tolerated."""
        if len(actual) != len(expected):
            raise Wrong(f"{what}{len(actual)} values instead of {len(expected)}")
        for i, (a, e) in enumerate(zip(actual, expected)):
            where = f"{what}number {i}: "
            if not isinstance(e, self.torch.Tensor):
                same = a == e or (isinstance(e, float) and (a != a and e != e or abs(a - e) <= self.atol + self.rtol * abs(e)))
                if values and not (type(a) is type(e) and same):
                    raise Wrong(f"{where}{a!r} instead of {e!r}")
                continue
            if not isinstance(a, self.torch.Tensor):
                raise Wrong(f"{where}{a!r} instead of a tensor")
            if a.shape != e.shape or a.dtype != e.dtype:
                raise Wrong(f"{where}{a.dtype}{list(a.shape)} instead of {e.dtype}{list(e.shape)}")
            if not values or self.name in UNINITIALISED:
                continue
            a, e = self.dense(a), self.dense(e)
            same = self.close(a, e)
            if not same.all():
                if exact and (e.is_floating_point() or e.is_complex()) and self.rounds_as(a, e, self.dense(exact()[i])):
                    self.by_float64 += 1
                    continue
                at = tuple(self.torch.nonzero(~same)[0].tolist())
                count = f"{int((~same).sum())} of {same.numel()}"
                raise Wrong(f"{where}{count} differ, at {at} {a[at].item()} instead of {e[at].item()}")

    def dense(self, tensor):
        tensor = tensor.detach()
        tensor = tensor.to_dense() if tensor.layout != self.torch.strided else tensor
        return tensor.dequantize() if tensor.is_quantized else tensor.resolve_conj().resolve_neg()

    def close(self, a, e):
        if e.is_floating_point() or e.is_complex():
            return self.torch.isclose(a, e, rtol=self.rtol, atol=self.atol, equal_nan=True)
        return a == e

    def rounds_as(self, a, e, exact):
        """Whether `a` is as near to the exact numbers as `e`, the plain result of the same precision, is: tolerated is
        four times its largest error."""
        if exact.shape != e.shape or not exact.isfinite().all():
            return False
        error = (e.to(exact.dtype) - exact).abs().max()
        return bool(((a.to(exact.dtype) - exact).abs() <= self.atol + self.rtol * exact.abs() + 4 * error).all())


def one_line(error):
    text = str(error).split("\nException raised from")[0]
    kind = "" if isinstance(error, Wrong) else f"{type(error).__name__}: "
    return kind + " ".join(text.split())[:600]


def work():
    """Reads lines [operator, samples, begin]; writes one line per case and one at the end of each operator."""
    warnings.simplefilter("ignore")
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what operators print is no answer

    def say(message):
        channel.write(json.dumps(message) + "\n")

    runner = Runner(say)
    say({"names": runner.names, "all": list(runner.operators), "torch": runner.torch.__version__})
    for line in sys.stdin:
        name, samples, begin = json.loads(line)
        try:
            runner.run(name, samples, begin)
            say({"done": name})
        except Exception as error:  # torch's own samples, or the plain call
            say({"done": name, "unusable": one_line(error)})


# ---- all operators, in the process that watches


class Worker:
    def __init__(self):
        self.errors = tempfile.TemporaryFile()
        environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONWARNINGS="ignore", TORCH_CPP_LOG_LEVEL="ERROR")
        self.process = subprocess.Popen(
            [sys.executable, os.path.abspath(__file__), "--worker"],
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

    def __init__(self, samples, torch_version, without_float32):
        self.samples, self.torch_version, self.without_float32 = samples, torch_version, without_float32
        self.counts = {}
        self.texts = collections.defaultdict(collections.Counter)  # by operator and outcome
        self.unusable = {}  # operators of which plain tensors cannot run a sample

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
        without_tensors = sorted(name for name, counts in self.counts.items() if not counts)
        lines = [
            *INTRODUCTION.format(command=command, torch=self.torch_version, by_float64=f"{by_float64:,}").splitlines(),
            "", f"**{self.summary()}.**",
            "", "## What is refused",
            "", "| operator | cases | what most of them say |", "|---|---|---|",
            *(f"| {name} | {count} | {self.reason(name)} |" for name, count in sorted(refused.items())),
            "", "## What is not run",
            "", "No tensor goes in: " + ", ".join(without_tensors) + ".",
            "", "No float32: " + ", ".join(self.without_float32) + ".",
            *(f"\n{name}, of which plain tensors raise: {text}" for name, text in sorted(self.unusable.items())),
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
# Operators beside plain tensors

Every operator of PyTorch's OpInfo database that takes float32, on two ranks: the samples of the database with all
tensors replicated, cut along the first dim and cut along the last, results and gradients, each a case. Made by

    {command}

under torch {torch}; `make test` runs a few samples of each.

- *correct*: equal to what plain tensors give, on both ranks, within torch's own tolerance for float32 (1.3e-6 of the
  value and 1e-5). In {by_float64} cases float32 rounds more than that: those are at most four times as far from the float64
  result as plain tensors are. Of memory that nobody has written to (empty_like), shape and dtype are compared.
- *random*: numbers are drawn, which cannot be torch's: shape and dtype are those of plain tensors, both ranks agree, and
  cut tensors give the same numbers as replicated ones.
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
        if "unusable" in message:
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
    parser.add_argument("--only", help="operators whose whole name matches this pattern")
    parser.add_argument("--write", help="a file for the table")
    parser.add_argument("--log", help="a file for one line per case")
    parser.add_argument("--verbose", action="store_true", help="print how each operator went")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        return work()
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
