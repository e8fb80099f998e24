"""The switches of this thread that change what operators do: scopes, and the forward of a parallelised module."""

import contextlib
import functools

import torch

from weft import _C

# Functions that set a switch and return its former value: called while tracing, and recorded.
SWITCHES = [_C.exchange_parallel_forward, _C.exchange_strict, _C.exchange_replicate_plain, _C.exchange_loss_parallel]


def _value_of(exchange):
    value = exchange(False)
    exchange(value)
    return value


def switches():
    """By their functions. In backward plain tensors are replicated, as in a scope."""
    is_backward = torch._C._current_graph_task_id() != -1
    return {exchange: _value_of(exchange) or (is_backward and exchange is _C.exchange_replicate_plain) for exchange in SWITCHES}


@contextlib.contextmanager
def switched(values):
    """Sets switches, and leaves the thread's as they were, also where an error ends this."""
    before = {exchange: _value_of(exchange) for exchange in SWITCHES}
    try:
        for exchange, value in values.items():
            exchange(value)
        yield
    finally:
        for exchange, value in before.items():
            exchange(value)


def keeping_switches(function):
    """The function, which leaves the thread's switches as they were."""

    @functools.wraps(function)
    def wrapper(*args, **options):
        with switched({}):
            return function(*args, **options)

    return wrapper
