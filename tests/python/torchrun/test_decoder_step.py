"""A decoder trained by two processes: the losses are those of one device, of the same model written by hand with bare
collectives, and of PyTorch's DTensor."""

import copy
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import weft

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path[:0] = [str(BENCH), str(BENCH / "peers")]
from decoder_modes import to_dtensor, to_megatron  # noqa: E402
from python_decoder import Decoder, training_step  # noqa: E402

STEPS = 6
VOCABULARY, DIM, BLOCKS, HEADS, ROWS, LENGTH = 40, 16, 2, 4, 2, 8
ACTIVATION = ROWS * LENGTH * DIM * 4  # bytes


def training(model, tokens, after_backward=lambda: None):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return lambda: training_step(model, optimizer, tokens[:, :-1], tokens[:, 1:], after_backward)


def by_weft(model, tokens, plan):
    mesh = weft.init_device_mesh("cpu", (dist.get_world_size(),))
    parallel = weft.parallelize_module(copy.deepcopy(model), mesh, BENCH / "plans" / plan)
    return training(parallel, weft.distribute_tensor(tokens, mesh))


def by_hand(model, tokens, sequence):
    parallel, after_backward = to_megatron(copy.deepcopy(model), sequence)
    return training(parallel, tokens, after_backward)


def model_and_tokens():
    return Decoder(VOCABULARY, DIM, BLOCKS, HEADS), torch.randint(VOCABULARY, (ROWS, LENGTH + 1))


def test_all_ways_to_train_give_the_same_losses():
    model, tokens = model_and_tokens()
    steps = {
        "weft": by_weft(model, tokens, "decoder.json"),
        "weft sequence": by_weft(model, tokens, "decoder_sequence.json"),
        "megatron": by_hand(model, tokens, sequence=False),
        "megatron sequence": by_hand(model, tokens, sequence=True),
        "dtensor": training(to_dtensor(copy.deepcopy(model)), tokens),
        "single": training(model, tokens),
    }
    losses = {mode: [step() for _ in range(STEPS)] for mode, step in steps.items()}
    assert losses["single"][-1] < 0.9 * losses["single"][0]
    for mode in steps:
        assert losses[mode] == pytest.approx(losses["single"], rel=1e-5), mode


def counted(plan):
    """Calls and bytes of a step outside the loss, by collective, and the bytes of the loss."""
    step = by_weft(*model_and_tokens(), plan)
    step()
    with weft.comm_debug() as report:
        step()
    layers, loss = {}, 0
    for row in report.rows:
        if row.operator == "aten::cross_entropy_loss":
            loss += row.bytes
            continue
        calls, bytes_ = layers.get(row.collective, (0, 0))
        layers[row.collective] = calls + row.calls, bytes_ + row.bytes
    return layers, loss


# The loss needs of each row the largest logit, then the sum of exponentials and the target's logit.
LOSS = 3 * ROWS * LENGTH * 4


def test_a_step_communicates_what_the_one_written_by_hand_does():
    # Two per block forward and two backward, and the gradient of what the logits are made of.
    count = 4 * BLOCKS + 1
    assert counted("decoder.json") == ({"all_reduce": (count, count * ACTIVATION)}, LOSS)


def test_with_sequence_parallelism_it_does_as_well():
    # Each of these is now a gathering and a scattering, of which half comes from the other rank, and backward those in turn;
    # logits: gathered forward, scattered backward; tokens: gathered backward. The gradients of all norms are one bucket.
    half = ACTIVATION // 2
    norms = (2 * BLOCKS + 1) * DIM * 4
    assert counted("decoder_sequence.json") == (
        {
            "all_gather": (4 * BLOCKS + 2, (4 * BLOCKS + 2) * half),
            "reduce_scatter": (4 * BLOCKS + 1, (4 * BLOCKS + 1) * half),
            "all_reduce": (1, norms),
        },
        LOSS,
    )
