"""Random programs on distributed tensors beside plain ones, and the harness that runs them."""

import os
import sys

import pytest
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from differential import kinds, run, sides
from differential.compare import check
from differential.program import Program
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
    verdict = check(program("v0 = tensor(1, (4,), [P('sum')])", "v0.tanh_()", "read(v0)"))
    assert not verdict.failure and verdict.steps == 2 and "the result cannot be stored" in verdict.refused[0]


def test_a_process_that_ends_is_the_failure_of_its_program():
    worker = run.Worker()
    worker.start(3, "no such kind")
    answer = worker.answer()
    assert answer["seed"] == 3 and answer["failure"].startswith("crash") and "KeyError" in answer["failure"]
    worker.end()
