"""The plans that models of transformers have of their own."""

import copy
import pathlib
import subprocess
import sys

import pytest
import torch
from architectures import ARCHITECTURES
from on_ranks import batch_of, expect_equal, forward, gradients, on_ranks, parallel

PROGRAM = pathlib.Path(__file__).with_name("from_pretrained_program.py")
WITH_PLAN = ["Llama", "Qwen3", "Gemma 2", "Phi-3", "GPT-NeoX", "OLMo 2", "Cohere", "Mixtral", "Qwen3-MoE"]


@pytest.mark.parametrize("name", WITH_PLAN)
@pytest.mark.parametrize("compute", [forward, gradients])
def test_auto_computes_what_one_device_does(name, compute):
    architecture = ARCHITECTURES[name]
    model, batch = architecture.make(), batch_of(architecture)
    assert model.tp_plan
    computed = on_ranks(lambda mesh: compute(parallel(model, mesh, "auto"), batch))
    expect_equal(computed, compute(copy.deepcopy(model), batch))


def test_a_program_that_loads_by_tp_plan_runs_on_weft_unchanged(tmp_path):
    from transformers import AutoModelForCausalLM

    ARCHITECTURES["Llama"].make().save_pretrained(tmp_path)
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    subprocess.run([sys.executable, "-W", "ignore", *torchrun, "-m", "weft", PROGRAM, tmp_path], check=True, timeout=300)
    found = torch.load(tmp_path / "found.pt")
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    tokens = torch.randint(3, 64, (2, 9), generator=torch.Generator().manual_seed(0))
    assert torch.equal(found["generated"], model.generate(tokens, do_sample=False, max_new_tokens=6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for loss_found in found["losses"]:
        loss = model(tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        assert loss_found == pytest.approx(loss.item(), rel=1e-4)
    trained = AutoModelForCausalLM.from_pretrained(tmp_path / "trained")
    for (name, got), want in zip(trained.named_parameters(), model.parameters()):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4, msg=lambda text: f"{name}: {text}")
