"""Models of transformers at toy sizes: how each is made, a batch for it, its parallel plan, and what that communicates."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from plans import BERT, BLOOM, CLIP, FALCON, GPT2, GPT_NEOX, LLAMA, MAMBA, MIXTRAL, OLMO2, OPT, PARALLEL, PHI, PHI3, T5, VIT, WHISPER

VOCABULARY = 64
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
SIZES = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
DENSE = SIZES | TOKENS | {"intermediate_size": 64, "max_position_embeddings": 64}
GROUPED = DENSE | {"num_key_value_heads": 2}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
CLIP_TOWER = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}


@dataclasses.dataclass
class Architecture:
    model: str  # the class of transformers
    config: Callable[[], Any]
    plan: dict[str, Any]
    batch: str = "tokens"  # a function of batches.py
    generates: bool = True
    # How many all-reduces a program written by hand would make, where nothing else is communicated: forward and backward.
    # None for models that communicate more, with what that is, forward and backward, and the reason.
    all_reduces: tuple[int, int] | None = None
    collectives: tuple[dict[str, int], dict[str, int]] | None = None
    reason: str = ""

    def make(self):
        torch.manual_seed(1)
        return getattr(hf, self.model)._from_config(self.config()).eval()


# A decoder with sharded classes: two per layer, one of the embedding and two of the loss; in backward two per layer and one
# of the logits' input.
DECODER = (7, 5)
# Attention and MLP of the same input, added up before they are reduced.
PARALLEL_DECODER = (5, 3)
# One more in backward: the gradients of norms within heads, all layers at once.
WITH_HEAD_NORMS = (7, 6)
# Experts have two inputs with gradients, the states and their weights.
EXPERTS = (7, 7)

ARCHITECTURES = {
    "Llama": Architecture("LlamaForCausalLM", lambda: hf.LlamaConfig(**GROUPED), LLAMA, all_reduces=DECODER),
    "Mistral": Architecture("MistralForCausalLM", lambda: hf.MistralConfig(**GROUPED, sliding_window=4), LLAMA, all_reduces=DECODER),
    "Qwen2": Architecture("Qwen2ForCausalLM", lambda: hf.Qwen2Config(**GROUPED), LLAMA, all_reduces=DECODER),
    "Qwen3": Architecture("Qwen3ForCausalLM", lambda: hf.Qwen3Config(**GROUPED, head_dim=8), LLAMA, all_reduces=WITH_HEAD_NORMS),
    "Gemma": Architecture("GemmaForCausalLM", lambda: hf.GemmaConfig(**GROUPED, head_dim=8), LLAMA, all_reduces=DECODER),
    "Gemma 2": Architecture(
        "Gemma2ForCausalLM", lambda: hf.Gemma2Config(**GROUPED, head_dim=8, sliding_window=4), LLAMA, all_reduces=DECODER
    ),
    "Gemma 3": Architecture(
        "Gemma3ForCausalLM",
        lambda: hf.Gemma3TextConfig(**GROUPED, head_dim=8, sliding_window=4),
        LLAMA,
        all_reduces=WITH_HEAD_NORMS,
    ),
    "Phi": Architecture("PhiForCausalLM", lambda: hf.PhiConfig(**DENSE), PHI, all_reduces=PARALLEL_DECODER),
    "Phi-3": Architecture("Phi3ForCausalLM", lambda: hf.Phi3Config(**GROUPED), PHI3, all_reduces=DECODER),
    "GPT-2": Architecture(
        "GPT2LMHeadModel",
        lambda: hf.GPT2Config(vocab_size=VOCABULARY, n_embd=32, n_layer=2, n_head=4, n_positions=64, **TOKENS),
        GPT2,
        all_reduces=DECODER,
    ),
    "GPT-NeoX": Architecture("GPTNeoXForCausalLM", lambda: hf.GPTNeoXConfig(**DENSE), GPT_NEOX, all_reduces=(5, 5)),
    "OPT": Architecture(
        "OPTForCausalLM",
        lambda: hf.OPTConfig(**SIZES, **TOKENS, ffn_dim=64, max_position_embeddings=64, word_embed_proj_dim=32),
        OPT,
        all_reduces=DECODER,
    ),
    "Falcon": Architecture(
        "FalconForCausalLM",
        lambda: hf.FalconConfig(**SIZES, **TOKENS, num_kv_heads=2, new_decoder_architecture=True),
        FALCON,
        all_reduces=(5, 5),
    ),
    "BLOOM": Architecture(
        "BloomForCausalLM",
        lambda: hf.BloomConfig(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4, **TOKENS),
        BLOOM,
        all_reduces=DECODER,
    ),
    "StableLM": Architecture("StableLmForCausalLM", lambda: hf.StableLmConfig(**GROUPED), LLAMA, all_reduces=DECODER),
    "OLMo 2": Architecture(
        "Olmo2ForCausalLM",
        lambda: hf.Olmo2Config(**GROUPED),
        OLMO2,
        all_reduces=(7 + 4, 5 + 4),  # each of the four norms over all heads reduces a number per token
    ),
    "Cohere": Architecture(
        "CohereForCausalLM", lambda: hf.CohereConfig(**GROUPED), LLAMA | PARALLEL, all_reduces=PARALLEL_DECODER
    ),
    "Mixtral": Architecture(
        "MixtralForCausalLM", lambda: hf.MixtralConfig(**GROUPED, num_local_experts=4, num_experts_per_tok=2), MIXTRAL, all_reduces=EXPERTS
    ),
    "Qwen3-MoE": Architecture(
        "Qwen3MoeForCausalLM",
        lambda: hf.Qwen3MoeConfig(**GROUPED, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32),
        MIXTRAL,
        all_reduces=(7, 8),
    ),
    "BERT": Architecture(
        "BertForMaskedLM",
        lambda: hf.BertConfig(**DENSE, **NO_DROPOUT),
        BERT | {"cls.predictions.decoder": "colwise"},
        "masked_tokens",
        generates=False,
        all_reduces=DECODER,
    ),
    "RoBERTa": Architecture(
        "RobertaForMaskedLM",
        lambda: hf.RobertaConfig(**DENSE, **NO_DROPOUT),
        BERT | {"lm_head.decoder": "colwise"},
        "masked_tokens",
        generates=False,
        all_reduces=DECODER,
    ),
    "T5": Architecture(
        "T5ForConditionalGeneration",
        lambda: hf.T5Config(
            vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, decoder_start_token_id=0, **TOKENS
        ),
        T5,
        "pairs",
        all_reduces=(14, 12),
    ),
    "Whisper": Architecture(
        "WhisperForConditionalGeneration",
        lambda: hf.WhisperConfig(
            vocab_size=VOCABULARY,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            num_mel_bins=8,
            max_source_positions=16,
            max_target_positions=32,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            begin_suppress_tokens=None,
            suppress_tokens=None,
        ),
        WHISPER,
        "sounds",
        all_reduces=(13, 12),
    ),
    "ViT": Architecture(
        "ViTForImageClassification",
        lambda: hf.ViTConfig(
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            image_size=16,
            patch_size=8,
            num_labels=4,
            **NO_DROPOUT,
        ),
        VIT,
        "images",
        generates=False,
        all_reduces=(4, 4),
    ),
    "CLIP": Architecture(
        "CLIPModel",
        lambda: hf.CLIPConfig(
            text_config=CLIP_TOWER
            | {"vocab_size": VOCABULARY, "max_position_embeddings": 32, "bos_token_id": 1, "eos_token_id": 2},
            vision_config=CLIP_TOWER | {"image_size": 16, "patch_size": 8},
            projection_dim=16,
        ),
        CLIP,
        "captions",
        generates=False,
        all_reduces=(8, 8),
    ),
    "Mamba": Architecture(
        "MambaForCausalLM",
        lambda: hf.MambaConfig(vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=8, **TOKENS),
        MAMBA,
        collectives=({"all_reduce": 7, "all_gather": 2}, {"all_reduce": 5}),
        reason="the states are stored in a plain cache, on every rank",
    ),
}
