"""torch.utils.checkpoint over distributed tensors: the recomputation draws the same random numbers as forward did.

torch restores the states of its own generators for that. Distributed tensors draw from Weft's (weft.manual_seed), whose state
is restored here; otherwise a dropout would have another mask in backward than in forward.
"""

from contextlib import contextmanager

import torch.utils.checkpoint as _checkpoint

from weft import _C
from weft._imports import replace


@contextmanager
def _replaying(state):
    now = _C.random_state()
    _C.set_random_state(state)
    try:
        yield
    finally:
        _C.set_random_state(now)


def _teach_reentrant(function):
    forward_of_torch, backward_of_torch = function.forward, function.backward

    def forward(ctx, run_function, preserve_rng_state, *args):
        ctx.weft_random_state = _C.random_state() if preserve_rng_state else None
        return forward_of_torch(ctx, run_function, preserve_rng_state, *args)

    def backward(ctx, *gradients):
        if ctx.weft_random_state is None:
            return backward_of_torch(ctx, *gradients)
        with _replaying(ctx.weft_random_state):
            return backward_of_torch(ctx, *gradients)

    function.forward, function.backward = staticmethod(forward), staticmethod(backward)


def _taught(generator_of_torch):
    """The given function is called in backward alone. Weft's state is restored whatever preserve_rng_state says, since that
    costs nothing, and torch.compile passes False for what the user wrote."""

    def generator(function, preserve_rng_state, *args, **kwargs):
        state = _C.random_state()

        def again(*inputs, **keywords):
            with _replaying(state):
                return function(*inputs, **keywords)

        return generator_of_torch(again, preserve_rng_state, *args, **kwargs)

    return generator


def install():
    _teach_reentrant(_checkpoint.CheckpointFunction)
    name = "_checkpoint_without_reentrant_generator"
    replace(_checkpoint, name, _taught(getattr(_checkpoint, name)))
