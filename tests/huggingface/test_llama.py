"""What people use with a Llama of transformers, each once on two ranks: the same as on one device."""

import copy

import peft
import pytest
import torch
import transformers
import weft
from architectures import ARCHITECTURES
from on_ranks import batch_of, expect_equal, forward, generate, global_value, gradients, on_ranks, parallel, train

LLAMA = ARCHITECTURES["Llama"]
BATCH = batch_of(LLAMA)


def expect_same(compute, prepare=lambda model: model):
    """`compute(model, BATCH)` of a parallel Llama is what it is of a plain one, each after `prepare`."""
    model = LLAMA.make()
    computed = on_ranks(lambda mesh: compute(prepare(parallel(model, mesh, LLAMA.plan)), BATCH))
    expect_equal(computed, compute(prepare(copy.deepcopy(model)), BATCH))


def with_adapters(model):
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "o_proj", "up_proj"])
    model = peft.get_peft_model(model, config)
    generator = torch.Generator().manual_seed(3)  # ranks that are threads share torch's own
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.1
    return model


@pytest.mark.parametrize("compute", [forward, gradients, train])
def test_adapters_added_to_a_parallel_model(compute):
    expect_same(compute, with_adapters)


def test_adapters_of_a_model_made_parallel_with_them():
    model = with_adapters(LLAMA.make())
    paths = [path for path, _ in model.named_modules()]
    plan = {}
    for pattern, style in LLAMA.plan.items():
        inside = f"base_model.model.{pattern}.base_layer"
        is_adapted = inside.replace("*", "0") in paths
        plan[inside if is_adapted else f"base_model.model.{pattern}"] = style
    computed = on_ranks(lambda mesh: train(parallel(model, mesh, plan), BATCH))
    expect_equal(computed, train(copy.deepcopy(model), BATCH))


def test_the_plan_auto_is_for_a_model_without_its_wrapper():
    def program(mesh):
        with pytest.raises(ValueError, match="must match layers of the model, .* before it is wrapped"):
            weft.parallelize_module(with_adapters(LLAMA.make()), mesh, "auto")

    on_ranks(program)


def test_adapters_in_autocast_have_plain_gradients():
    def program(mesh):
        model = with_adapters(parallel(LLAMA.make(), mesh, LLAMA.plan))
        with torch.autocast("cpu", torch.bfloat16):
            model(**BATCH).loss.backward()
        for name, parameter in model.named_parameters():
            assert ("lora_" in name) == (parameter.grad is not None)
            assert parameter.grad is None or not weft.is_dtensor(parameter.grad)

    on_ranks(program)


def test_adapters_merged_into_the_weights():
    expect_same(lambda model, batch: forward(model.merge_and_unload(), batch), with_adapters)


def test_adapters_merged_for_a_while():
    def merged(model, batch):
        model.merge_adapter()
        found = forward(model, batch)
        model.unmerge_adapter()
        return found + forward(model, batch)

    expect_same(merged, with_adapters)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_gradient_checkpointing(use_reentrant):
    def checkpointing(model):
        model.train()
        model.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
        if use_reentrant:
            model.enable_input_require_grads()
        return model

    expect_same(gradients, checkpointing)


def test_autocast():
    def loss_and_gradients(model, batch):
        with torch.autocast("cpu", torch.bfloat16):
            outputs = model(**batch)
        outputs.loss.backward()
        assert outputs.logits.dtype == torch.bfloat16
        return [global_value(each).float() for each in (outputs.loss.detach(), model.lm_head.weight.grad)]

    model = LLAMA.make()
    expected = loss_and_gradients(copy.deepcopy(model), BATCH)
    for computed in on_ranks(lambda mesh: loss_and_gradients(parallel(model, mesh, LLAMA.plan), BATCH)):
        torch.testing.assert_close(computed, expected, rtol=2e-2, atol=2e-3)


def test_grad_scaler():
    def scaled_steps(model, batch):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
        curve = []
        for step in range(4):
            loss = model(**batch).loss
            if step == 1:
                loss = loss * torch.inf  # this step is skipped
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            curve += [global_value(loss.detach()), torch.tensor(scaler.get_scale())]
        return curve

    expect_same(scaled_steps)


def test_average_of_models():
    def averaged_model(model, batch):
        average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.5))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        for _ in range(3):
            model(**batch).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            average.update_parameters(model)
        return forward(average, batch)

    expect_same(averaged_model)


@pytest.mark.parametrize("vocabulary", [72, 48])
def test_resized_embeddings(vocabulary):
    def resized(model):
        assert model.resize_token_embeddings(vocabulary) is model.get_input_embeddings()
        is_known = torch.arange(vocabulary)[:, None] < 64  # new rows are random
        with torch.no_grad(), weft.replicate_plain():
            for layer in (model.get_input_embeddings(), model.get_output_embeddings()):
                layer.weight.mul_(is_known)
        return model

    expect_same(lambda model, batch: train(model, {name: each % vocabulary for name, each in batch.items()}), resized)

    def placements(mesh):
        model = parallel(LLAMA.make(), mesh, LLAMA.plan)
        model.resize_token_embeddings(vocabulary)
        assert model.config.vocab_size == model.lm_head.out_features == vocabulary
        return [layer.weight.placements for layer in (model.model.embed_tokens, model.lm_head)]

    assert on_ranks(placements)[0] == [(weft.Shard(0),), (weft.Shard(0),)]


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_generates_with_a_cache(cache):
    model = LLAMA.make()

    def tokens(model):
        return model.generate(BATCH["input_ids"], do_sample=False, max_new_tokens=8, cache_implementation=cache)

    for computed in on_ranks(lambda mesh: tokens(parallel(model, mesh, LLAMA.plan))):
        assert torch.equal(computed, tokens(model))


def test_saved_and_loaded(tmp_path):
    model = LLAMA.make()
    on_ranks(lambda mesh: parallel(model, mesh, LLAMA.plan).save_pretrained(tmp_path))
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    assert torch.equal(generate(loaded, BATCH), generate(model, BATCH))
    computed = on_ranks(lambda mesh: forward(weft.parallelize_module(copy.deepcopy(loaded), mesh, LLAMA.plan), BATCH))
    expect_equal(computed, forward(model, BATCH))
