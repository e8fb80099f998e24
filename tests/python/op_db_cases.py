"""The cases of PyTorch's OpInfo database, one operator at a time: run by op_db.py in a process of its own."""

import contextlib
import dataclasses
import functools
import importlib.util
import json
import os
import re
import sys
import types
import unittest
import warnings


class UnlockedProperty(functools.cached_property):
    """Until Python 3.11 a cached property is computed under a lock of all threads: ranks as threads, that wait for each
    other inside of it, would wait for ever. Torch has some in its modules."""

    def __init__(self, function):
        super().__init__(function)
        self.lock = contextlib.nullcontext()


functools.cached_property = UnlockedProperty
if importlib.util.find_spec("expecttest") is None:
    # The base of torch's own test cases, none of which is run: any other will do.
    sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)

import torch  # noqa: E402
import weft  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402
from torch.utils import _pytree as tree  # noqa: E402

LAYOUTS = ("replicated", "first", "last")
COLLECTIVE_SECONDS = 5

# They return uninitialised memory: shape and dtype are compared alone.
UNINITIALISED = {
    "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_",
}  # fmt: skip


class Wrong(Exception):
    """A result that is not that of plain tensors."""


class Hang(Exception):
    """Ranks that would wait for each other."""


def name_of(op):
    return f"{op.name}.{op.variant_test_name}" if op.variant_test_name else op.name


IN_PLACE_SHARE = 4  # of the samples of a form in place is one in so many run: the functional form has run them all


@dataclasses.dataclass(frozen=True)
class InPlace:
    """The form of an operator that writes to its input, which is a copy of the sample's."""

    op: object

    def __call__(self, input, *args, **kwargs):
        written = input.clone()
        if self.op.inplace_variant(written, *args, **kwargs) is not written:
            raise Wrong("the form in place does not return its input")
        return written

    @property
    def supports_autograd(self):
        return self.op.supports_autograd and self.op.supports_inplace_autograd


def forms_of(op):
    """An operator by its name, and its form in place, if it has one, by add_ or div_.floor_rounding."""
    yield name_of(op), op
    if op.inplace_variant and not op.name.endswith("_"):
        yield name_of(op).replace(op.name, op.name + "_", 1), InPlace(op)


def dtype_of(op):
    """float32, or what an operator without it takes; None if it has no kernel for CPUs."""
    supported = op.supported_dtypes("cpu")
    preferred = (torch.float32, torch.int64, torch.complex64, torch.float16)
    return next((dtype for dtype in (*preferred, *sorted(supported, key=str)) if dtype in supported), None)


def widened(tensor):
    wide = {torch.float32: torch.float64, torch.complex64: torch.complex128}
    return tensor.to(wide.get(tensor.dtype, tensor.dtype))


def spread(samples, count):
    """`count` of them, from the first to the last."""
    if count <= 0 or len(samples) <= count:
        return samples
    return [samples[i * (len(samples) - 1) // (count - 1)] for i in range(count)] if count > 1 else samples[:1]


class Runner:
    """The cases of one operator after another; says how each went."""

    def __init__(self, say):
        self.say = say
        self.forms, self.dtypes = {}, {}
        for op in op_db:
            for name, form in forms_of(op):
                self.forms[name] = form
                if (dtype := dtype_of(op)) is not None:
                    self.dtypes[name] = dtype

    def run(self, name, samples, begin):
        """Skips samples that plain tensors cannot run, and gives what the last of them says; of a form in place, whose result may
        not fit into the input, only if no sample is left."""
        unusable = None
        form = self.forms[name]
        is_in_place = isinstance(form, InPlace)
        op = form.op if is_in_place else form
        samples = -(-samples // IN_PLACE_SHARE) if is_in_place else samples
        torch.manual_seed(0)
        dtype = self.dtypes[name]
        differentiable = form.supports_autograd and (dtype.is_floating_point or dtype.is_complex)
        all_samples = list(op.sample_inputs("cpu", dtype, requires_grad=differentiable))
        number, has_run = 0, begin > 0
        for i, sample in enumerate(spread(all_samples, samples)):
            plain = None
            for layout in LAYOUTS:
                if not self.differs(sample, layout):
                    continue
                number += 1
                if number <= begin:
                    continue
                try:
                    plain = plain or Case(form, name, sample)
                except Exception as error:
                    unusable = one_line(error)
                    break
                outcomes, has_run = plain.outcomes(layout), True
                self.say({"op": name, "case": number, "sample": i, "layout": layout, "outcomes": outcomes})
        return None if is_in_place and has_run else unusable

    def tensors(self, value):
        return [x for x in tree.tree_leaves(value) if isinstance(x, torch.Tensor)]

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

    def __init__(self, op, name, sample):
        self.op, self.name, self.sample = op, name, sample
        self.rtol, self.atol = 1.3e-6, 1e-5  # torch's own for float32
        self.expected, draws = self.plain(0)
        self.is_random = draws and not self.agree(self.expected, self.plain(1)[0])
        self.exact = None  # what float64 gives, where it is asked for
        self.by_float64 = 0
        self.replicated = None  # of a random operator: what the other layouts are compared with

    def plain(self, seed):
        """What plain tensors give, and whether random numbers were drawn. Entries of the database seed for themselves."""
        seed_all = torch.manual_seed
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
        generator = torch.Generator().manual_seed(seed)
        dtype = torch.complex64 if tensor.is_complex() else torch.float32
        return torch.randn(tensor.shape, dtype=dtype, generator=generator).to(tensor.dtype)

    # -- on two ranks

    def on_ranks(self, layout, prepare=lambda t: t):
        """The Result of each rank; what is raised before there are values is raised here."""
        failed = {}

        def rank_program(rank):
            weft.manual_seed(0)
            mesh = weft.init_device_mesh("cpu", (2,))

            def distribute(tensor):
                dim = {"replicated": None, "first": 0, "last": tensor.dim() - 1}[layout]
                placement = weft.Replicate() if dim is None or tensor.dim() == 0 else weft.Shard(dim)
                return weft.distribute_tensor(prepare(tensor), mesh, [placement])

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
        plain = [t.requires_grad for t in self.expected.values if isinstance(t, torch.Tensor)]
        self.compare(first.values, self.expected.values, "", values=not self.is_random, exact=lambda: self.in_float64().values)
        if first.requires_grad != plain:
            raise Wrong(f"requires_grad is {first.requires_grad}, not {plain}")
        if self.is_random:
            self.compare(first.values, reference.values, "against replicated, ", exact=lambda: self.in_float64().values)
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
            self.compare(
                first.gradients, reference.gradients, "gradient against replicated, ",
                exact=lambda: self.in_float64().gradients,
            )  # fmt: skip
        self.compare(second.gradients, first.gradients, "gradient against the other rank, ")

    def in_float64(self):
        """What plain tensors give of wider ones; of a random operator, what replicated ones do."""
        if self.exact is None:
            self.exact = self.on_ranks("replicated", widened)[0] if self.is_random else self.call(widened, lambda t: t)
        return self.exact

    def compare(self, actual, expected, what, values=True, exact=None):
        """Raises Wrong. `exact` gives what float64 does, for numbers in which float32 rounds more than is tolerated."""
        if len(actual) != len(expected):
            raise Wrong(f"{what}{len(actual)} values instead of {len(expected)}")
        for i, (a, e) in enumerate(zip(actual, expected)):
            where = f"{what}number {i}: "
            if not isinstance(e, torch.Tensor):
                same = a == e or (isinstance(e, float) and (a != a and e != e or abs(a - e) <= self.atol + self.rtol * abs(e)))
                if values and not (type(a) is type(e) and same):
                    raise Wrong(f"{where}{a!r} instead of {e!r}")
                continue
            if not isinstance(a, torch.Tensor):
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
                at = tuple(torch.nonzero(~same)[0].tolist())
                count = f"{int((~same).sum())} of {same.numel()}"
                raise Wrong(f"{where}{count} differ, at {at} {a[at].item()} instead of {e[at].item()}")

    def dense(self, tensor):
        tensor = tensor.detach()
        tensor = tensor.to_dense() if tensor.layout != torch.strided else tensor
        tensor = tensor.dequantize() if tensor.is_quantized else tensor.resolve_conj().resolve_neg()
        return tensor.float() if tensor.is_floating_point() and tensor.itemsize == 1 else tensor  # float8 has no comparison

    def close(self, a, e):
        if e.is_floating_point() or e.is_complex():
            return torch.isclose(a, e, rtol=self.rtol, atol=self.atol, equal_nan=True)
        return a == e

    def rounds_as(self, a, e, exact):
        """Whether `a` is as near to the exact numbers as `e`, the result of the same precision that it should equal, is:
        tolerated is four times the largest error of that, which must be a rounding error."""
        if exact.shape != e.shape or not exact.isfinite().all():
            return False
        error = (e.to(exact.dtype) - exact).abs().max()
        is_rounding = error <= 1e-3 * max(1, exact.abs().max())
        return bool(is_rounding and ((a.to(exact.dtype) - exact).abs() <= self.atol + self.rtol * exact.abs() + 4 * error).all())


def one_line(error):
    text = str(error).split("\nException raised from")[0]
    kind = "" if isinstance(error, Wrong) else f"{type(error).__name__}: "
    return kind + " ".join(text.split())[:600]


def work():
    """Reads lines [operator, samples, begin]; writes one line per case and one at the end of each operator."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    channel = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what operators print is no answer

    def say(message):
        channel.write(json.dumps(message) + "\n")

    runner = Runner(say)
    say({"names": list(runner.dtypes), "all": list(runner.forms), "torch": torch.__version__})
    for line in sys.stdin:
        name, samples, begin = json.loads(line)
        say({"done": name, "unusable": runner.run(name, samples, begin)})


if __name__ == "__main__":
    work()
