"""More models of transformers, with the plan that the names of their layers suggest, and what is compared with one device."""

import copy
import dataclasses
import re
import warnings
from collections.abc import Callable

import batches
import torch
import transformers as hf
from architectures import CLIP_TOWER, DENSE, GROUPED, NO_DROPOUT, SIZES, TOKENS, VOCABULARY
from on_ranks import expect_equal, generate, global_value, on_ranks, parallel

COLWISE = r"(q|k|v|query|key|value|[qkvw]_lin|lin1|[qk]v?_b_proj|[qkv]_proj|(query|key|value)_proj|gate_proj|up_proj|fc1|fc_in|c_fc|wi|ffn)"
ROWWISE = r"(o|o_proj|out_proj|out_lin|lin2|down_proj|fc2|fc_out|mlp\.c_proj|wo|ffn_output|output\.dense)"
VISION = CLIP_TOWER | {"image_size": 16, "patch_size": 8, "num_labels": 4} | NO_DROPOUT
ENCODER_DECODER = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    **{f"{side}_{name}": size for side in ("encoder", "decoder") for name, size in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 64))},
    "dropout": 0.0,
}
EXPERTS = GROUPED | {"num_experts_per_tok": 2}
LINEAR_HEADS = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8}
STATE_SPACE = {"mamba_n_heads": 8, "mamba_d_head": 8, "mamba_n_groups": 2, "mamba_d_state": 8, "mamba_chunk_size": 8}
LATENT = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8}

# The class, its configuration, and the function of batches.py that makes a batch.
MODELS = {
    "DistilBERT": (
        "DistilBertForMaskedLM",
        lambda: hf.DistilBertConfig(vocab_size=VOCABULARY, dim=32, hidden_dim=64, n_layers=2, n_heads=4, dropout=0, attention_dropout=0),
        "masked_tokens",
    ),
    "ALBERT": ("AlbertForMaskedLM", lambda: hf.AlbertConfig(**DENSE, **NO_DROPOUT, embedding_size=16), "masked_tokens"),
    "DeBERTa 2": (
        "DebertaV2ForMaskedLM",
        lambda: hf.DebertaV2Config(**DENSE, **NO_DROPOUT, relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8),
        "masked_tokens",
    ),
    "BART": (
        "BartForConditionalGeneration",
        lambda: hf.BartConfig(
            **ENCODER_DECODER, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None
        ),
        "pairs",
    ),
    "GPT-J": (
        "GPTJForCausalLM",
        lambda: hf.GPTJConfig(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, rotary_dim=4, **TOKENS),
        "tokens",
    ),
    "GPT-BigCode": (
        "GPTBigCodeForCausalLM",
        lambda: hf.GPTBigCodeConfig(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, **TOKENS),
        "tokens",
    ),
    "MPT": ("MptForCausalLM", lambda: hf.MptConfig(vocab_size=VOCABULARY, d_model=32, n_heads=4, n_layers=2, max_seq_len=64, **TOKENS), "tokens"),
    "GLM-4": ("Glm4ForCausalLM", lambda: hf.Glm4Config(**GROUPED, head_dim=8), "tokens"),
    "Granite": ("GraniteForCausalLM", lambda: hf.GraniteConfig(**GROUPED), "tokens"),
    "OLMoE": ("OlmoeForCausalLM", lambda: hf.OlmoeConfig(**EXPERTS, num_experts=4), "tokens"),
    "GPT-OSS": (
        "GptOssForCausalLM",
        lambda: hf.GptOssConfig(**EXPERTS, head_dim=8, num_local_experts=4, sliding_window=4),
        "tokens",
    ),
    "DeepSeek-V3": (
        "DeepseekV3ForCausalLM",
        lambda: hf.DeepseekV3Config(
            **DENSE | LATENT,
            num_experts_per_tok=2,
            num_key_value_heads=4,
            n_routed_experts=4,
            n_group=1,
            topk_group=1,
            moe_intermediate_size=32,
            first_k_dense_replace=1,
        ),
        "tokens",
    ),
    "Mamba-2": (
        "Mamba2ForCausalLM",
        lambda: hf.Mamba2Config(
            vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=8, num_heads=8, head_dim=8, n_groups=2, chunk_size=8, **TOKENS
        ),
        "tokens",
    ),
    "RecurrentGemma": (
        "RecurrentGemmaForCausalLM",
        lambda: hf.RecurrentGemmaConfig(**SIZES | {"num_hidden_layers": 3}, **TOKENS, lru_width=32, intermediate_size=64, attention_window_size=8),
        "tokens",
    ),
    "Cohere 2": ("Cohere2ForCausalLM", lambda: hf.Cohere2Config(**GROUPED, sliding_window=4), "tokens"),
    "OLMo 3": ("Olmo3ForCausalLM", lambda: hf.Olmo3Config(**GROUPED, sliding_window=4), "tokens"),
    "Llama 4": (
        "Llama4ForCausalLM",
        lambda: hf.Llama4TextConfig(**GROUPED | {"num_experts_per_tok": 1}, head_dim=8, intermediate_size_mlp=64, num_local_experts=4),
        "tokens",
    ),
    "DiffLlama": ("DiffLlamaForCausalLM", lambda: hf.DiffLlamaConfig(**GROUPED), "tokens"),
    "Qwen3-Next": (
        "Qwen3NextForCausalLM",
        lambda: hf.Qwen3NextConfig(
            **EXPERTS | LINEAR_HEADS,
            head_dim=8,
            num_experts=4,
            moe_intermediate_size=32,
            shared_expert_intermediate_size=32,
            layer_types=["linear_attention", "full_attention"],
        ),
        "tokens",
    ),
    "Falcon-H1": ("FalconH1ForCausalLM", lambda: hf.FalconH1Config(**GROUPED | STATE_SPACE, mamba_d_ssm=64), "tokens"),
    "LFM2": ("Lfm2ForCausalLM", lambda: hf.Lfm2Config(**GROUPED, layer_types=["conv", "full_attention"], block_multiple_of=8), "tokens"),
    "M2M100": (
        "M2M100ForConditionalGeneration",
        lambda: hf.M2M100Config(
            **ENCODER_DECODER, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None
        ),
        "pairs",
    ),
    "DINOv2": ("Dinov2ForImageClassification", lambda: hf.Dinov2Config(**VISION), "images"),
    "Swin": (
        "SwinForImageClassification",
        lambda: hf.SwinConfig(
            image_size=16, patch_size=2, embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4, num_labels=4, drop_path_rate=0
        ),
        "images",
    ),
    "SegFormer": (
        "SegformerForImageClassification",
        lambda: hf.SegformerConfig(
            depths=[1, 1],
            num_encoder_blocks=2,
            hidden_sizes=[8, 16],
            num_attention_heads=[2, 4],
            sr_ratios=[2, 1],
            patch_sizes=[3, 3],
            strides=[2, 2],
            mlp_ratios=[2, 2],
            num_labels=4,
            drop_path_rate=0,
            classifier_dropout_prob=0,
            hidden_dropout_prob=0,
        ),
        "images",
    ),
}


def plan_of(model):
    styles = {COLWISE: "colwise", ROWWISE: "rowwise"}
    plan = {}
    for path, layer in model.named_modules():
        if isinstance(layer, torch.nn.Linear):
            plan |= {path: style for names, style in styles.items() if re.search(rf"(^|\.){names}$", path)}
    return plan


def forward(model, batch):
    with torch.no_grad():
        outputs = model(**batch)
    return [global_value(outputs.loss), global_value(outputs.logits)]


def train(model, batch):
    """Losses of two steps, and the gradients of the first."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    results = []
    for step in range(2):
        loss = model(**batch).loss
        loss.backward()
        results.append(global_value(loss.detach()))
        if step == 0:
            results += [global_value(p.grad).clone() for p in model.parameters() if p.grad is not None]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return results


@dataclasses.dataclass
class Check:
    """What a column of the table says: `compute` of a parallel model is what it is of a plain one."""

    compute: Callable
    is_for: Callable = lambda model: True


CHECKS = {"forward": Check(forward), "gradients, training": Check(train), "generate": Check(generate, lambda model: model.can_generate())}


def cell(name, check):
    """What the table says of a model. Raises if the check fails."""
    kind, config, batch = MODELS[name]
    torch.manual_seed(1)
    model = getattr(hf, kind)._from_config(config()).eval()
    batch = getattr(batches, batch)()
    plan = plan_of(model)
    assert "rowwise" in plan.values()
    if not CHECKS[check].is_for(model):
        return "–"
    compute = CHECKS[check].compute
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*the plan does not name")
        computed = on_ranks(lambda mesh: compute(parallel(model, mesh, plan), batch))
    expect_equal(computed, compute(copy.deepcopy(model), batch))
    return "yes"
