"""Batches for the architectures, each the same in every call."""

import torch


def _generator():
    return torch.Generator().manual_seed(2)


def _tokens():
    return torch.randint(3, 64, (2, 9), generator=_generator())


def tokens():
    return {"input_ids": _tokens(), "labels": _tokens()}


def masked_tokens():
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1, 6:] = 0
    return {"input_ids": _tokens(), "attention_mask": mask, "labels": _tokens()}


def pairs():
    return {"input_ids": _tokens(), "labels": _tokens()[:, :6].contiguous()}


def sounds():
    return {"input_features": torch.randn(2, 8, 32, generator=_generator()), "labels": _tokens()[:, :6].contiguous()}


def images():
    return {"pixel_values": torch.randn(2, 3, 16, 16, generator=_generator()), "labels": torch.tensor([1, 3])}


def captions():
    return {"input_ids": _tokens(), "pixel_values": torch.randn(2, 3, 16, 16, generator=_generator()), "return_loss": True}
