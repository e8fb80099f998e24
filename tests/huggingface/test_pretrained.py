"""load_pretrained: folders of save_pretrained straight into parallel models on meta, and Weft's checkpoints back to from_pretrained."""

import json
import subprocess
from pathlib import Path

import pytest
import torch
import transformers
import weft
from safetensors.torch import load_file, save_file
from on_ranks import on_ranks

COMMAND = Path(weft._C.__file__).parents[2] / "bin/weft"
TOKENS = torch.tensor([[3, 14, 15, 9, 2, 6]])


def llama_config(**other):
    return transformers.LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, **other
    )


def saved(path, model, **options):
    model.save_pretrained(path, **options)
    return path


def logits_of(model):
    with torch.no_grad():
        logits = model(input_ids=TOKENS).logits
    return logits.full_tensor() if weft.is_dtensor(logits) else logits


def on_meta(config, dtype=None):
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    return model.to(dtype).eval() if dtype else model.eval()


def loaded(config, folder, mesh, **options):
    model = on_meta(config)
    weft.parallelize_module(model, mesh, "auto")
    weft.load_pretrained(model, folder, **options)
    return model


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("shards", ["1GB", "20KB"])
def test_a_llama_goes_to_weft_and_back(tmp_path, tied, shards):
    config = llama_config(tie_word_embeddings=tied)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    folder = saved(tmp_path / "hf", model, max_shard_size=shards)
    expected = logits_of(model)

    def program(mesh):
        parallel = loaded(config, folder, mesh)
        assert not any(p.is_meta for p in parallel.parameters())
        weft.save({"model": parallel}, tmp_path / "weft")
        return logits_of(parallel)

    for logits in on_ranks(program):
        torch.testing.assert_close(logits, expected, rtol=1e-5, atol=1e-6)

    done = subprocess.run(
        [COMMAND, "checkpoint", "export", tmp_path / "weft", "--prefix", "model.", "-o", tmp_path / "back", "--json"],
        capture_output=True, text=True, check=True,
    )
    assert json.loads(done.stdout)["folder"] == str(tmp_path / "back")
    config.save_pretrained(tmp_path / "back")
    again = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back").eval()
    assert torch.equal(logits_of(again), expected)


def test_a_gpt2_with_transposed_weights_keeps_its_logits(tmp_path):
    config = transformers.GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=4, n_positions=32)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    folder = saved(tmp_path / "hf", model)
    plan = {"transformer.h.*.mlp.c_fc": "colwise", "transformer.h.*.mlp.c_proj": "rowwise"}

    def program(mesh):
        parallel = on_meta(config)
        weft.parallelize_module(parallel, mesh, plan)
        weft.load_pretrained(parallel, folder)
        return logits_of(parallel)

    for logits in on_ranks(program):
        torch.testing.assert_close(logits, logits_of(model), rtol=1e-5, atol=1e-6)


def test_fused_projections_are_read_from_separate_ones(tmp_path):
    q, k, v = torch.randn(8, 4), torch.randn(4, 4), torch.randn(4, 4)
    save_file({"0.q": q, "0.k": k, "0.v": v, "0.out_t": torch.randn(8, 4)}, tmp_path / "model.safetensors")
    (tmp_path / "map.json").write_text(
        json.dumps({"*.qkv.weight": {"concat": ["*.q", "*.k", "*.v"], "dim": 0}, "*.out.weight": {"from": "*.out_t", "transpose": True}})
    )

    def program(mesh):
        with torch.device("meta"):
            block = torch.nn.ModuleDict({"qkv": torch.nn.Linear(4, 16, bias=False), "out": torch.nn.Linear(8, 4, bias=False)})
            model = torch.nn.ModuleList([block])
        weft.parallelize_module(
            model, mesh, {"*.qkv": {"style": "colwise", "parts": [4, 2, 2]}, "*.out": "rowwise"}
        )
        weft.load_pretrained(model, tmp_path, key_map=tmp_path / "map.json")
        return [weft.full_tensor(model[0]["qkv"].weight), weft.full_tensor(model[0]["out"].weight)]

    for qkv, out in on_ranks(program):
        assert torch.equal(qkv, torch.cat([q, k, v]))
        assert torch.equal(out, load_file(tmp_path / "model.safetensors")["0.out_t"].t())


def test_missing_and_unexpected_names_are_listed(tmp_path):
    config = llama_config()
    model = transformers.AutoModelForCausalLM.from_config(config)
    state = {name: value for name, value in model.state_dict().items() if name != "model.norm.weight"}
    save_file({**state, "extra": torch.ones(1)}, tmp_path / "model.safetensors")

    def program(mesh):
        with pytest.raises(ValueError, match=r"the folder lacks \['model.norm.weight'\], and the model lacks \['extra'\]"):
            loaded(config, tmp_path, mesh)
        parallel = on_meta(config)
        weft.parallelize_module(parallel, mesh, "auto")
        keys = weft.load_pretrained(parallel, tmp_path, strict=False)
        assert keys == (["model.norm.weight"], ["extra"])
        assert torch.equal(weft.full_tensor(parallel.model.norm.weight), torch.ones(32))

    on_ranks(program)


def test_values_are_converted_on_the_way(tmp_path):
    config = llama_config()
    model = transformers.AutoModelForCausalLM.from_config(llama_config()).to(torch.bfloat16)
    folder = saved(tmp_path, model)

    def program(mesh):
        parallel = loaded(config, folder, mesh)
        weight = parallel.model.layers[1].mlp.up_proj.weight
        assert weight.dtype == torch.float32
        return weft.full_tensor(weight)

    for weight in on_ranks(program):
        assert torch.equal(weight, model.model.layers[1].mlp.up_proj.weight.float())
