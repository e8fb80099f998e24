"""torch.nn.utils.parametrize and the parametrizations of torch on distributed parameters.

torch.nn.utils.parametrize.cached() counts the scopes and keeps the values of all threads together. Ranks that are threads would
find a value computed, or thrown away, depending on what the others do, and not make the same calls. Here every thread counts and
keeps its own.
"""

import contextlib
import functools
import threading

import torch.nn.utils.parametrizations as _parametrizations
import torch.nn.utils.parametrize as _parametrize

from weft import _C
from weft._gather import on_replicated


class _Scopes(threading.local):
    """A number of scopes; torch asks whether it is zero."""

    count = 0

    def __bool__(self):
        return self.count > 0

    def __iadd__(self, more):
        self.count += more
        return self

    def __isub__(self, fewer):
        return self.__iadd__(-fewer)


class _Values(threading.local):
    def __init__(self):
        self.values = {}

    def get(self, key):
        return self.values.get(key)

    def __setitem__(self, key, value):
        self.values[key] = value


def _cached_per_thread(of_torch):
    scopes, values = _parametrize._cache_enabled, _parametrize._cache

    @contextlib.contextmanager
    @functools.wraps(of_torch)
    def cached():
        scopes.count += 1
        try:
            yield
        finally:
            scopes.count -= 1
            if not scopes:
                values.values.clear()

    return cached


def _gathering(right_inverse):
    """It writes to the diagonal of its result. The diagonal of a sharded matrix is no view, so the matrix is gathered, once."""

    @functools.wraps(right_inverse)
    def of_any_layout(self, value):
        if not _C.is_dtensor(value):
            return right_inverse(self, value)
        return on_replicated(lambda gathered: right_inverse(self, gathered), value)

    return of_any_layout


def install():
    if isinstance(_parametrize._cache_enabled, _Scopes):
        return
    _parametrize._cache_enabled, _parametrize._cache = _Scopes(), _Values()
    _parametrize.cached = _cached_per_thread(_parametrize.cached)
    orthogonal = _parametrizations._Orthogonal
    orthogonal.right_inverse = _gathering(orthogonal.right_inverse)
