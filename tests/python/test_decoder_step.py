"""A decoder trained on ranks that are threads: the losses are those of one device."""

import copy
import sys
from pathlib import Path

import pytest
import torch
import weft

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
from python_decoder import Decoder, training_step  # noqa: E402

# Made once: ranks as threads share torch's random numbers.
torch.manual_seed(2)
MODEL = Decoder(vocabulary=40, dim=16, blocks=2, heads=4)
TOKENS = torch.randint(40, (2, 9))
STEPS = 6


def losses_of(model, tokens, **options):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, **options)
    return [training_step(model, optimizer, tokens[:, :-1], tokens[:, 1:]) for _ in range(STEPS)]


def distribute(model, mesh, plan="decoder.json"):
    return weft.parallelize_module(model, mesh, BENCH / "plans" / plan)


def on_mesh(ranks, program):
    return weft.run_on_ranks(ranks, lambda rank: program(weft.init_device_mesh("cpu", (ranks,))))


@pytest.mark.parametrize("plan", ["decoder.json", "decoder_sequence.json"])
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}], ids=str)
def test_the_losses_are_those_of_one_device(ranks, options, plan):
    def program(mesh):
        return losses_of(distribute(copy.deepcopy(MODEL), mesh, plan), weft.distribute_tensor(TOKENS, mesh), **options)

    expected = losses_of(copy.deepcopy(MODEL), TOKENS, **options)
    assert expected[-1] < 0.9 * expected[0]
    for losses in on_mesh(ranks, program):
        assert losses == pytest.approx(expected, rel=1e-5)


def test_the_trained_parameters_are_those_of_one_device_and_lie_as_before():
    def program(mesh):
        model = distribute(copy.deepcopy(MODEL), mesh)
        before = {name: parameter.placements for name, parameter in model.named_parameters()}
        losses_of(model, weft.distribute_tensor(TOKENS, mesh))
        assert {name: parameter.placements for name, parameter in model.named_parameters()} == before
        return {name: parameter.full_tensor().detach() for name, parameter in model.named_parameters()}

    single = copy.deepcopy(MODEL)
    losses_of(single, TOKENS)
    for parameters in on_mesh(2, program):
        for name, parameter in single.named_parameters():
            torch.testing.assert_close(parameters[name], parameter.detach(), rtol=1e-4, atol=1e-5)
