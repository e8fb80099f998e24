"""More models of transformers do what the second table of docs/huggingface.md says."""

import copy

import batches
import pytest
import torch
import transformers as hf
import weft
import zoo
from architectures import SIZES, TOKENS
from more_architectures import CHECKS, MODELS, cell
from on_ranks import expect_equal, forward, gradients, on_ranks, parallel
from plans import FALCON

DOCUMENTED = zoo.documented(zoo.MORE)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", MODELS)
def test_does_what_the_document_says(name, check):
    assert cell(name, check) == DOCUMENTED[name][check]


def test_the_document_has_every_model():
    assert list(DOCUMENTED) == list(MODELS)


def test_a_layer_with_one_key_head_is_on_every_rank():
    """Falcon-7B's queries, keys and values are one weight, whose one key head the ranks cannot divide."""
    layer = "transformer.h.*.self_attention.query_key_value"
    torch.manual_seed(1)
    config = hf.FalconConfig(**SIZES, **TOKENS, multi_query=True, new_decoder_architecture=False, parallel_attn=True)
    model, batch = hf.FalconForCausalLM._from_config(config).eval(), batches.tokens()
    for plan in (FALCON, FALCON | {layer: "replicate"}):  # a layer that is sharded nevertheless is gathered
        for compute in (forward, gradients):
            computed = on_ranks(lambda mesh: compute(parallel(model, mesh, plan), batch))
            expect_equal(computed, compute(copy.deepcopy(model), batch))

    def communicated(mesh):
        on_mesh = parallel(model, mesh, FALCON | {layer: "replicate"})
        with weft.comm_debug() as in_forward:
            on_mesh(**batch)
        return {kind: calls for kind, (calls, _) in in_forward.by_collective().items()}

    assert on_ranks(communicated) == [{"all_reduce": 5}] * 2

    def refused(mesh):
        with pytest.raises(ValueError, match=r"every part must be divisible by the 2 ranks, but got \[4, 1, 1\]"):
            parallel(model, mesh, {layer: {"style": "colwise", "parts": [4, 1, 1]}})

    on_ranks(refused)
