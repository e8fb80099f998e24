"""Ways to generate, to prepare a batch and to compute attention, each on models for which it differs: the same as on one device."""

import copy

import pytest
import torch
import transformers as hf
import weft
from architectures import ARCHITECTURES, DENSE, GROUPED, NO_DROPOUT
from on_ranks import batch_of, expect_equal, forward, generate, global_value, gradients, on_ranks, parallel
from plans import BERT, LLAMA


def expect_same(name, compute, model=None, plan=None):
    """`compute(model, batch)` of a parallel model is what it is of a plain one."""
    architecture = ARCHITECTURES[name]
    model, batch = model or architecture.make(), batch_of(architecture)
    computed = on_ranks(lambda mesh: compute(parallel(model, mesh, plan or architecture.plan), batch))
    expect_equal(computed, compute(copy.deepcopy(model), batch))


def generating(**options):
    def compute(model, batch):
        prompt = {name: value for name, value in batch.items() if name != "labels"}
        return model.generate(**prompt, do_sample=False, max_new_tokens=8, **options)

    return compute


@pytest.mark.parametrize("name", ["Gemma 2", "Gemma 3", "Mistral", "Mixtral", "GPT-2", "Whisper"])
def test_with_a_static_cache(name):
    expect_same(name, generating(cache_implementation="static"))


@pytest.mark.parametrize("name", ["Llama", "GPT-2", "T5"])
def test_beams(name):
    expect_same(name, generating(num_beams=3, num_return_sequences=2))


@pytest.mark.parametrize("name", ["Llama", "GPT-2", "Falcon", "BLOOM", "Gemma 2"])
def test_prompts_padded_on_the_left(name):
    def compute(model, batch):
        is_token = torch.ones_like(batch["input_ids"])
        is_token[0, :4] = 0
        return model.generate(batch["input_ids"] * is_token, attention_mask=is_token, do_sample=False, max_new_tokens=8)

    expect_same(name, compute)


def test_penalties():
    expect_same("Llama", generating(repetition_penalty=1.3, no_repeat_ngram_size=2))


def test_speculation():
    torch.manual_seed(9)
    smaller = hf.LlamaForCausalLM._from_config(hf.LlamaConfig(**GROUPED | {"num_hidden_layers": 1})).eval()

    def compute(model, batch):
        tokens = batch["input_ids"][:1]
        by_model = model.generate(tokens, assistant_model=copy.deepcopy(smaller), do_sample=False, max_new_tokens=8)
        by_prompt = model.generate(tokens, prompt_lookup_num_tokens=2, do_sample=False, max_new_tokens=8)
        return [by_model, by_prompt]

    expect_same("Llama", compute)


def test_sampled_tokens_are_those_of_one_rank():
    """Random numbers are Weft's: the same on any number of ranks, and not those of plain tensors."""
    model, batch = ARCHITECTURES["Llama"].make(), batch_of(ARCHITECTURES["Llama"])

    def sampled(mesh):
        weft.manual_seed(5)
        return parallel(model, mesh, LLAMA).generate(batch["input_ids"], do_sample=True, top_k=20, top_p=0.9, max_new_tokens=8)

    (expected,) = on_ranks(sampled, ranks=1)
    assert not torch.equal(expected, generate(model, batch)[:, : expected.shape[1]])
    assert all(torch.equal(tokens, expected) for tokens in on_ranks(sampled))


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("compute", [forward, gradients])
def test_attention_as_chosen(attention, compute):
    model = ARCHITECTURES["Llama"].make()
    model.set_attn_implementation(attention)
    expect_same("Llama", compute, model)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_model_of_another_dtype(dtype):
    architecture = ARCHITECTURES["Llama"]
    model, tokens = architecture.make(), batch_of(architecture)["input_ids"]

    def logits(model):
        with torch.no_grad():
            return global_value(model.to(dtype)(tokens).logits)

    expected = logits(copy.deepcopy(model))
    for computed in on_ranks(lambda mesh: logits(parallel(model, mesh, architecture.plan))):
        torch.testing.assert_close(computed, expected, rtol=3e-2, atol=3e-3)


CLASSIFIERS = {
    "Llama": lambda: hf.LlamaForSequenceClassification._from_config(hf.LlamaConfig(**GROUPED, num_labels=2)),
    "BERT": lambda: hf.BertForSequenceClassification._from_config(hf.BertConfig(**DENSE, **NO_DROPOUT, num_labels=2)),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_classifier_of_sequences(name):
    torch.manual_seed(1)
    model, plan = CLASSIFIERS[name]().eval(), {"Llama": LLAMA, "BERT": BERT}[name]
    plan = {pattern: style for pattern, style in plan.items() if pattern != "lm_head"}

    def compute(model, batch):
        outputs = model(batch["input_ids"], labels=torch.tensor([1, 0]))
        outputs.loss.backward()
        found = [outputs.loss.detach(), outputs.logits.detach(), *(p.grad for p in model.parameters() if p.grad is not None)]
        return [global_value(each) for each in found]

    expect_same(name, compute, model, plan)


@pytest.mark.parametrize("name", ["GPT-2", "Gemma", "BERT"])
def test_resized_tables_stay_tied(name):
    def compute(model, batch):
        model.resize_token_embeddings(72)
        table, head = model.get_input_embeddings(), model.get_output_embeddings()
        assert table.weight is head.weight and table.weight.shape == (72, 32)
        if weft.is_dtensor(table.weight):
            assert table.weight.placements == (weft.Shard(0),)
        with torch.no_grad(), weft.replicate_plain():
            table.weight.mul_(torch.arange(72)[:, None] < 64)  # new rows are random
        return {"outputs": forward(model, batch), **gradients(model, batch)}

    expect_same(name, compute)
