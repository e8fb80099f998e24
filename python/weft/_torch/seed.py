"""torch.manual_seed seeds the random numbers of distributed tensors too. Their stream is Weft's own: it gives other numbers than
plain tensors get, and the same on any mesh and under any placements."""

import functools

import torch

from weft import _C


def install():
    seed_of_torch = torch.random.manual_seed
    if hasattr(seed_of_torch, "_of_torch"):
        return

    @functools.wraps(seed_of_torch)
    def manual_seed(seed):
        generator = seed_of_torch(seed)
        _C.manual_seed_to_compare(int(seed) % 2**64)
        return generator

    manual_seed._of_torch = seed_of_torch
    torch.manual_seed = torch.random.manual_seed = manual_seed
