"""Models of transformers, unchanged, with random weights: two ranks compute what one device computes."""

import copy

import pytest
import torch
import weft
from architectures import ARCHITECTURES
from on_ranks import batch_of, expect_equal, forward, generate, gradients, on_ranks, parallel, train

pytestmark = pytest.mark.parametrize("name", ARCHITECTURES)


@pytest.mark.parametrize("compute", [forward, gradients, train])
def test_computes_what_one_device_does(name, compute):
    architecture = ARCHITECTURES[name]
    model, batch = architecture.make(), batch_of(architecture)
    computed = on_ranks(lambda mesh: compute(parallel(model, mesh, architecture.plan), batch))
    expect_equal(computed, compute(copy.deepcopy(model), batch))


def test_generates_what_one_device_does(name):
    architecture = ARCHITECTURES[name]
    if not architecture.generates:
        assert not hasattr(architecture.make(), "generate")
        return
    model, batch = architecture.make(), batch_of(architecture)
    for tokens in on_ranks(lambda mesh: generate(parallel(model, mesh, architecture.plan), batch)):
        assert torch.equal(tokens, generate(model, batch))


def test_communicates_what_a_program_by_hand_would(name):
    architecture = ARCHITECTURES[name]
    model, batch = architecture.make(), batch_of(architecture)

    def program(mesh):
        on_mesh = parallel(model, mesh, architecture.plan)
        with weft.comm_debug() as in_forward:
            loss = on_mesh(**batch).loss
        with weft.comm_debug() as in_backward:
            loss.backward()
        return [{kind: calls for kind, (calls, _) in c.by_collective().items()} for c in (in_forward, in_backward)]

    communicated = on_ranks(program)[0]
    if architecture.all_reduces is None:
        assert architecture.reason, communicated
    else:
        assert communicated == [{"all_reduce": calls} for calls in architecture.all_reduces]
