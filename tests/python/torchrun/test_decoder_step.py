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
from python_decoder import Decoder, distribute, training_step  # noqa: E402

STEPS = 6
BLOCKS = 2


def training(model, tokens):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    return lambda: training_step(model, optimizer, tokens[:, :-1], tokens[:, 1:])


def test_all_ways_to_train_give_the_same_losses():
    model = Decoder(vocabulary=40, dim=16, blocks=BLOCKS, heads=4)
    tokens = torch.randint(40, (2, 9))
    mesh = weft.init_device_mesh("cpu", (dist.get_world_size(),))
    steps = {
        "weft": training(distribute(copy.deepcopy(model), mesh), weft.distribute_tensor(tokens, mesh)),
        "megatron": training(to_megatron(copy.deepcopy(model)), tokens),
        "dtensor": training(to_dtensor(copy.deepcopy(model)), tokens),
        "single": training(model, tokens),
    }
    losses = {mode: [step() for _ in range(STEPS)] for mode, step in steps.items()}
    assert losses["single"][-1] < 0.9 * losses["single"][0]
    for mode in steps:
        assert losses[mode] == pytest.approx(losses["single"], rel=1e-5), mode


def test_a_step_communicates_as_often_as_the_one_written_by_hand():
    mesh = weft.init_device_mesh("cpu", (dist.get_world_size(),))
    model = distribute(Decoder(vocabulary=40, dim=16, blocks=BLOCKS, heads=4), mesh)
    step = training(model, weft.distribute_tensor(torch.randint(40, (2, 9)), mesh))
    step()
    with weft.comm_debug() as counted:
        step()
    calls = {name: calls for name, (calls, _) in counted.by_collective().items()}
    # Two per block forward and two backward; the gradient of what the logits are made of; the logits.
    assert calls == {"all_reduce": 4 * BLOCKS + 1, "all_gather": 1}, str(counted)
