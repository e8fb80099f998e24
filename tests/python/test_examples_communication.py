"""What the examples communicate in a step of training: exactly what a tensor-parallel decoder written by hand does."""

import copy
import sys
from pathlib import Path

import pytest
import weft

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/python"))
import train

LAYERS, ROWS, LENGTH, DIM, VOCABULARY = 2, 8, 16, 32, 64
FLOAT = 4
ACTIVATIONS = ROWS * LENGTH * DIM * FLOAT
PLANNED, GRADIENT = "", "gradient"  # moves that the plan asks for, and reductions of the gradients of parameters

# The parameters that are replicated while their inputs are sharded by the sequence: the weights of norms; in GPT-2 their
# biases and the positions too. Their gradients are partial, and reduced together.
SEQUENCE_GRADIENTS = {
    "llama": DIM * FLOAT * (2 * LAYERS + 1),
    "gpt2": DIM * FLOAT * (2 * (2 * LAYERS + 1) + LENGTH),
}


def all_reduces(ranks, of):
    """Bytes are those received: the full tensor from every other rank."""
    return len(of), (ranks - 1) * sum(of)


def pieces(ranks, count):
    """Gathered or scattered activations: a chunk from every other rank."""
    return count, count * (ranks - 1) * ACTIVATIONS // ranks


def expected_forward(ranks, sequence_parallel):
    """After the embedding and after both halves of a layer activations are summed up. By sequences they are gathered before
    both halves and before the output layer, and scattered where they are summed up."""
    count = 2 * LAYERS + 1
    if not sequence_parallel:
        return {("all_reduce", PLANNED): all_reduces(ranks, [ACTIVATIONS] * count)}
    return {("all_gather", PLANNED): pieces(ranks, count), ("reduce_scatter", PLANNED): pieces(ranks, count)}


def expected_backward(name, ranks, sequence_parallel):
    """The mirror of that: gradients are summed up before both halves of a layer and before the output layer."""
    expected = expected_forward(ranks, sequence_parallel)
    if sequence_parallel:
        expected["all_reduce", GRADIENT] = all_reduces(ranks, [SEQUENCE_GRADIENTS[name]])
    return expected


def expected_loss(ranks):
    """Of every row the largest logit, then the sum of exponentials and the target's logit."""
    row_numbers = ROWS * LENGTH * FLOAT
    return {("all_reduce", "aten::cross_entropy_loss"): all_reduces(ranks, [row_numbers, 2 * row_numbers])}


def counted(communication):
    counts = {}
    for row in communication.rows:
        calls, received = counts.get((row.collective, row.operator), (0, 0))
        counts[row.collective, row.operator] = (calls + row.calls, received + row.bytes)
    return counts


def measured(name, ranks, sequence_parallel):
    """Of the first rank, in the second step: forward with the loss, and backward."""
    model = train.make_model(name)

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))
        parallel = weft.parallelize_module(copy.deepcopy(model), mesh, train.plan_file(name, sequence_parallel))
        inputs, targets = train.distribute_batch(train.EXAMPLES[name].batch(0), mesh)
        train.training_step(parallel, train.make_optimizer(parallel), inputs, targets)
        with weft.comm_debug() as forward:
            loss = train.loss_of(parallel(inputs), targets)
        with weft.comm_debug() as backward:
            loss.backward()
        return counted(forward), counted(backward)

    return weft.run_on_ranks(ranks, on_rank)[0]


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["", "sequence_parallel"])
@pytest.mark.parametrize("ranks,name", [(2, "llama"), (2, "gpt2"), (4, "gpt2")])
def test_a_step_communicates_what_one_written_by_hand_does(name, ranks, sequence_parallel):
    forward, backward = measured(name, ranks, sequence_parallel)
    assert forward == expected_forward(ranks, sequence_parallel) | expected_loss(ranks)
    assert backward == expected_backward(name, ranks, sequence_parallel)


@pytest.mark.parametrize("sequence_parallel", [False, True], ids=["", "sequence_parallel"])
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_the_optimizer_communicates_nothing(name, sequence_parallel):
    model = train.make_model(name)

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (1, 2), mesh_dim_names=("dp", "tp"))
        parallel = weft.parallelize_module(copy.deepcopy(model), mesh, train.plan_file(name, sequence_parallel))
        inputs, targets = train.distribute_batch(train.EXAMPLES[name].batch(0), mesh)
        train.loss_of(parallel(inputs), targets).backward()
        optimizer = train.make_optimizer(parallel)
        with weft.strict(), weft.comm_debug() as update:
            optimizer.step()
        return update.calls

    assert weft.run_on_ranks(2, on_rank) == [0, 0]
