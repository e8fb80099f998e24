"""Random programs on distributed and on plain tensors, and the harness that runs them."""

import os
import sys

import pytest
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from differential import kinds, run, sides, steps_operators, steps_writes
from differential.builder import Builder
from differential.compare import check, tolerance_of
from differential.program import Program
from differential.runner import run_plain
from differential.shrink import shrink


def test_programs_agree_with_plain_tensors():
    summary = run.run_all(range(150), jobs=2, shrink=True)
    assert not summary.failures, summary.text()


@pytest.mark.parametrize("kind", run.KINDS)
def test_a_seed_gives_the_same_program_again(kind):
    assert kinds.generate(5, kind).text() == kinds.generate(5, kind).text() != kinds.generate(6, kind).text()


@pytest.mark.parametrize("reduce_op", ["sum", "avg", "max", "min"])
def test_terms_reduce_to_the_value(reduce_op):
    value = sides.global_value(3, (4, 5), torch.float64)
    terms = torch.stack([sides.term(value, reduce_op, index, 3, 7) for index in range(3)])
    reduced = {"sum": terms.sum(0), "avg": terms.mean(0), "max": terms.amax(0), "min": terms.amin(0)}[reduce_op]
    torch.testing.assert_close(reduced, value)


def program(*steps):
    return Program("written", 0, (2,), "grad", steps)


def test_a_wrong_value_is_found_and_its_program_made_smaller():
    # Both ranks add 1 to their term, so that the sum grows by 2.
    wrong = program(
        "v0 = tensor(1, (4,), [P('sum')])", "v1 = tensor(2, (4,), [S(0)])", "v2 = v1 + 1", "local(v0).add_(1)", "read(v2)",
        "read(v0)",
    )  # fmt: skip
    verdict = check(wrong)
    assert verdict.kind() == "value differs" and "'read(v0)'" in verdict.failure
    assert shrink(wrong, verdict.kind()).steps == (wrong.steps[0], wrong.steps[3], wrong.steps[5])


def test_the_coarsest_dtype_that_is_made_gives_the_tolerance():
    # The terms 41 / 3 of two ranks are rounded to float32 and added.
    steps = ("v0 = tensor(1, (4, 6, 8), [S(1)])", "v1 = v0.argmin(1)", "v2 = v1.sum() / 3", "read(v2)")
    assert not check(program(*steps)).failure
    exact = program(*steps[:2], "read(v1)")
    assert tolerance_of(program(*steps), run_plain(program(*steps))) == 1e-4 and tolerance_of(exact, run_plain(exact)) == 1e-9


def test_errors_are_compared():
    assert not check(program("v0 = tensor(1, (4,), [R])", "v1 = v0.view(3)")).failure
    assert check(program("v0 = tensor(1, (4,), [S(0)])", "local(v0)[3]")).kind().startswith("raises: IndexError")
    assert check(program("v0 = tensor(1, (4,), [S(0)])", "v0.to_local()")).kind() == "does not raise"


def test_a_gradient_that_plain_tensors_refuse_is_compared_with_that_of_saved_copies():
    # The module gathers its input, and the gathered copy is saved.
    verdict = check(program(
        "m0 = module('Mlp', 'Mlp', 4, 8)", "v0 = tensor(1, (2, 4, 4), [S(1)])", "v1 = m0(v0)", "v0.add_(1)",
        "v1.sum().backward()", "read(m0.up.weight.grad)",
    ))  # fmt: skip
    assert not verdict.failure and "plain alone raises" in verdict.refused[0]


def test_a_step_that_is_refused_is_left_out_and_counted():
    verdict = check(program("v0 = tensor(1, (4,), [S(0)])", "v0[1:3].mul_(2)", "read(v0)"))
    assert not verdict.failure and verdict.steps == 2 and "a view that had to be redistributed" in verdict.refused[0]


def refused_write(*steps):
    """What is said of a program that writes to the local tensor of a view that had to be copied."""
    verdict = check(program("v0 = tensor(1, (6, 2), [S(0)])", "v1 = v0[1:3]", "v2 = v0 * 1", *steps))
    return verdict.failure or verdict.refused, verdict.steps


@pytest.mark.parametrize("write", steps_writes.LOCAL)
@pytest.mark.parametrize("use", ["read(v0)", "read(v1)", "read(v0[4:])", "v3 = v0.sum()", "v0.add_(1)"])
def test_a_write_to_the_local_tensor_of_a_copied_view_raises_and_is_left_out(write, use):
    (said,), steps = refused_write(write.format(x="v1"), use)
    assert "a view that had to be redistributed, and to_local() or full_tensor() of such a view was written to" in said
    assert steps == 4


def test_an_error_about_a_copied_view_needs_a_write_to_one():
    said = "raise ValueError('is a view that had to be redistributed, and to_local() or full_tensor() of such a view was written to')"
    raising = f"exec({said!r}) if hasattr(v0, 'to_local') else v0"
    assert refused_write(raising)[0].startswith("raises: ValueError")
    assert refused_write("local(v0).mul_(2)", raising)[0].startswith("raises: ValueError")  # no view
    assert refused_write("local(v2).mul_(2)", raising)[0].startswith("raises: ValueError")  # other memory
    assert refused_write(raising, "local(v1).mul_(2)")[0].startswith("raises: ValueError")  # too late


def test_writes_whose_result_torch_does_not_define_are_none():
    x = torch.arange(8.0)
    assert steps_writes.is_defined(x, x) and steps_writes.is_defined(x, x.view(8)) and steps_writes.is_defined(x[:4], x[4:])
    assert steps_writes.is_defined(x[:1].expand(3), None)  # torch raises
    assert not steps_writes.is_defined(x.unfold(0, 3, 1), None)
    assert not steps_writes.is_defined(x[1:], x[:-1]) and not steps_writes.is_defined(x, x[:1].expand(8))


def test_what_rounding_decides_is_not_drawn():
    x = torch.tensor([1.0, 1.0, -2.0], dtype=torch.float64)
    assert steps_operators.is_decided("{x}.amin()", x) and not steps_operators.is_decided("{x}.amin()", x / 3)
    assert steps_operators.is_decided("{x}.amin()", x[1:] / 3) and steps_operators.is_decided("{x} + 1", x / 3)
    assert not steps_operators.is_decided("{x}.abs()", (x - 1) / 7)
    assert not steps_operators.is_decided("torch.maximum({x}, {y})", x / 3, x / 3)
    rows = torch.tensor([[1.0, 0.0], [2.0, 0.0]])
    assert steps_operators.divides_by_norm_of_zeros("F.normalize({x}, dim={d})", rows, 0)
    assert not steps_operators.divides_by_norm_of_zeros("F.normalize({x}, dim={d})", rows, 1)


@pytest.mark.parametrize(
    "steps",
    [
        ("v0 = tensor(1, (6, 8), [S(0)])", "v1 = tensor(2, (3, 8), [S(0)])", "torch.mul(v1, 2, out=v0)", "read(v0)"),
        (
            "v0 = tensor(1, (3, 4), [R])", "v1 = v0[..., 1:]",
            "with torch.inference_mode(): v1.data = v1.detach().clone()", "v1[2:3] = 2.0",
        ),
        (
            "v0 = tensor(1, (3, 1), [R], requires_grad=True)", "v1 = tensor(2, (3, 1), [R], torch.float32)",
            "v2 = torch.einsum('ij,kj->ik', v0, v1)",
            "v3 = torch.autograd.grad(v2.tanh().sum(), v0, create_graph=True)[0]", "read(v3)",
        ),
        ("v0 = tensor(1, (1,), [S(0)])", "v1 = v0.expand(2, 1)", "v1.detach().copy_(v1[...].detach())", "read(v0)"),
        ("v0 = tensor(1, (1,), [S(0)])", "v1 = v0.expand(2, 1)", "v1.add_(1)", "read(v0)"),
        ("v0 = tensor(1, (4,), [R])", "with torch.inference_mode(): v0.data = v0.data * 2", "v0.data.add_(1)", "read(v0)"),
        (
            "v0 = tensor(1, (3, 0, 3), [R], requires_grad=True, device='meta')", "v1 = redistribute(v0, [R])",
            "v2 = torch.where(v1 > 0, v1, 0.0).clamp(-1, 1)", "v3 = torch.autograd.grad(v2.sum(), v0)[0]", "read(v3)",
        ),
    ],
)  # fmt: skip
def test_programs_that_differed_once_agree(steps):
    assert not check(program(*steps)).failure


def test_a_step_that_is_refused_in_a_second_run_ends_its_program():
    b = Builder("writes", 0, mesh=(2,), mode="grad")
    for text in ("v0 = tensor(1, (1, 2), [R], requires_grad=True)", "v1 = tensor(2, (1, 2), [R])", "v2 = v1[:, :]", "v3 = v2[0]"):
        assert b.add(text)
    assert b.add("v2.copy_(v0)") and b.tensors() == ["v0", "v1", "v2", "v3"]  # asks v3 whether it is a leaf
    assert b.add("v3.tanh_()") and b.add("read(v1)")
    b.undo()
    assert b.ended and b.program.steps[-1] == "v3.tanh_()"
    b.read_everything()
    assert b.program.steps[-1] == "read(v3)"


def test_a_process_that_ends_is_the_failure_of_its_program():
    worker = run.Worker()
    worker.start(3, "no such kind")
    answer = worker.answer()
    assert answer["seed"] == 3 and answer["failure"].startswith("crash") and "KeyError" in answer["failure"]
    worker.end()
