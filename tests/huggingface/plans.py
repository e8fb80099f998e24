"""Parallel plans of the architectures, as one would write them by hand."""


def attention(prefix, output, inputs=("q_proj", "k_proj", "v_proj"), output_style="rowwise"):
    return {f"{prefix}.{name}": "colwise" for name in inputs} | {f"{prefix}.{output}": output_style}


def mlp(prefix, up, down, down_style="rowwise"):
    return {f"{prefix}.{name}": "colwise" for name in up} | {f"{prefix}.{down}": down_style}


# Attention and MLP of the same input: their outputs are terms of one sum, which is reduced once, at the end of the layer.
TERM = {"style": "rowwise", "output": "P(sum)"}
REDUCED = {"style": "output", "outputs": ["-> R"]}

HEADS_OF_LLAMA = attention("model.layers.*.self_attn", "o_proj")
VOCABULARY_OF_LLAMA = {"model.embed_tokens": "rowwise", "lm_head": "colwise"}
LLAMA = VOCABULARY_OF_LLAMA | HEADS_OF_LLAMA | mlp("model.layers.*.mlp", ["gate_proj", "up_proj"], "down_proj")
OLMO2 = LLAMA | {"model.layers.*.self_attn.[qk]_norm.weight": "shard"}
PARALLEL = {"model.layers.*.self_attn.o_proj": TERM, "model.layers.*.mlp.down_proj": TERM, "model.layers.*": REDUCED}
PHI = (
    VOCABULARY_OF_LLAMA
    | attention("model.layers.*.self_attn", "dense", output_style=TERM)
    | mlp("model.layers.*.mlp", ["fc1"], "fc2", TERM)
    | {"model.layers.*": REDUCED}
)
PHI3 = VOCABULARY_OF_LLAMA | {
    "model.layers.*.self_attn.qkv_proj": {"style": "colwise", "parts": [4, 2, 2]},
    "model.layers.*.self_attn.o_proj": "rowwise",
    "model.layers.*.mlp.gate_up_proj": {"style": "colwise", "parts": 2},
    "model.layers.*.mlp.down_proj": "rowwise",
}
GPT2 = {
    "transformer.wte": "rowwise",
    "lm_head": "colwise",
    "transformer.h.*.attn.c_attn": {"style": "colwise", "parts": 3},
    "transformer.h.*.attn.c_proj": "rowwise",
} | mlp("transformer.h.*.mlp", ["c_fc"], "c_proj")
GPT_NEOX = (
    {"gpt_neox.embed_in": "rowwise", "lm_head": "colwise"}
    | attention("gpt_neox.layers.*.attention", "dense", ["query_key_value"], TERM)
    | mlp("gpt_neox.layers.*.mlp", ["dense_h_to_4h"], "dense_4h_to_h", TERM)
    | {"gpt_neox.layers.*": REDUCED}
)
OPT = (
    {"model.decoder.embed_tokens": "rowwise", "lm_head": "colwise"}
    | attention("model.decoder.layers.*.self_attn", "out_proj")
    | mlp("model.decoder.layers.*", ["fc1"], "fc2")
)
BLOOM = (
    {"transformer.word_embeddings": "rowwise", "lm_head": "colwise"}
    | attention("transformer.h.*.self_attention", "dense", ["query_key_value"])
    | mlp("transformer.h.*.mlp", ["dense_h_to_4h"], "dense_4h_to_h")
)
FALCON = BLOOM | {
    "transformer.h.*.self_attention.dense": TERM,
    "transformer.h.*.mlp.dense_4h_to_h": TERM,
    "transformer.h.*": REDUCED,
}
MIXTRAL = VOCABULARY_OF_LLAMA | HEADS_OF_LLAMA | {
    "model.layers.*.mlp.experts.gate_up_proj": {"style": "colwise", "parts": 2},
    "model.layers.*.mlp.experts.down_proj": "rowwise",
    "model.layers.*.mlp.experts": {"style": "output", "outputs": ["-> R"]},
}
BERT = (
    {"*.embeddings.word_embeddings": "rowwise"}
    | {f"*.encoder.layer.*.attention.self.{name}": "colwise" for name in ("query", "key", "value")}
    | {"*.encoder.layer.*.attention.output.dense": "rowwise"}
    | {"*.encoder.layer.*.intermediate.dense": "colwise", "*.encoder.layer.*.output.dense": "rowwise"}
)
T5 = (
    {"shared": "rowwise", "lm_head": "colwise"}
    | attention("*.block.*.layer.*.*Attention", "o", ["q", "k", "v"])
    | mlp("*.block.*.layer.*.DenseReluDense", ["wi"], "wo")
    | {"*.block.0.layer.0.SelfAttention.relative_attention_bias": "colwise"}
)
WHISPER = (
    {"model.decoder.embed_tokens": "rowwise", "proj_out": "colwise"}
    | attention("model.*.layers.*.*_attn", "out_proj")
    | mlp("model.*.layers.*", ["fc1"], "fc2")
)
VIT = attention("vit.layers.*.attention", "o_proj") | mlp("vit.layers.*.mlp", ["fc1"], "fc2")
CLIP = attention("*.encoder.layers.*.self_attn", "out_proj") | mlp("*.encoder.layers.*.mlp", ["fc1"], "fc2")
# The channels are sharded from the first projection to the last, with the parameters that are no layers' in between.
MAMBA = {
    "backbone.embeddings": "rowwise",
    "lm_head": "colwise",
    "backbone.layers.*.mixer.in_proj": {"style": "colwise", "parts": 2},
    "backbone.layers.*.mixer.conv1d.*": "shard",
    "backbone.layers.*.mixer.x_proj": "rowwise",
    "backbone.layers.*.mixer.dt_proj": "colwise",
    "backbone.layers.*.mixer.A_log": "shard",
    "backbone.layers.*.mixer.D": "shard",
    "backbone.layers.*.mixer.out_proj": "rowwise",
}
