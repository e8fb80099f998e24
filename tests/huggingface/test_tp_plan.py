"""The plans that models of transformers have of their own."""

import copy

import pytest
from architectures import ARCHITECTURES
from on_ranks import batch_of, expect_equal, forward, gradients, on_ranks, parallel

WITH_PLAN = ["Llama", "Qwen3", "Gemma 2", "Phi-3", "GPT-NeoX", "OLMo 2", "Cohere", "Mixtral", "Qwen3-MoE"]


@pytest.mark.parametrize("name", WITH_PLAN)
@pytest.mark.parametrize("compute", [forward, gradients])
def test_auto_computes_what_one_device_does(name, compute):
    architecture = ARCHITECTURES[name]
    model, batch = architecture.make(), batch_of(architecture)
    assert model.tp_plan
    computed = on_ranks(lambda mesh: compute(parallel(model, mesh, "auto"), batch))
    expect_equal(computed, compute(copy.deepcopy(model), batch))
