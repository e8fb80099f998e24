"""Models of many shapes, made with torch alone, that are exported, sharded and compared: a file per family."""

from . import (
    bert,
    convnet,
    gpt2,
    grouped_query,
    llama,
    llama_cache,
    lstm,
    mixture,
    mlp,
    recommender,
    t5,
    transform_failures,
    unet,
    vit,
)

FAMILIES = (
    mlp,
    gpt2,
    llama,
    llama_cache,
    grouped_query,
    bert,
    vit,
    mixture,
    convnet,
    t5,
    lstm,
    unet,
    recommender,
    transform_failures,
)
MODELS = {model.name: model for family in FAMILIES for model in family.MODELS}
