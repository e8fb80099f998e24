"""The forward of a parallelised module, in which plain tensors among distributed ones count as replicated.

Masks, positions, rotary tables and caches are plain tensors that every rank makes alike. torch calls a module's forward and
hooks in nn.Module.__call__, which is replaced when the first module is parallelised: hooks of every submodule would cost
more, and miss exceptions like KeyboardInterrupt.

A module's `generate`, as that of transformers, is a loop around its forward that mixes its outputs with plain tokens; the same
holds in it.
"""

import functools
import inspect
import sys

from torch import nn
from torch.fx import _symbolic_trace

from weft import _C, _containers
from weft._gather import global_value

_exchange = _C.exchange_parallel_forward


def _install():
    call_of_torch = nn.Module.__call__
    is_torchs = call_of_torch is nn.Module._wrapped_call_impl  # no other package replaced it

    def __call__(self, *args, **kwargs):
        if not self._weft_replicates_plain or _exchange(True):
            if is_torchs and self._compiled_call_impl is None:
                # As _wrapped_call_impl does: a call of it would cost every module of the process a Python frame more.
                return self._call_impl(*args, **kwargs)
            return call_of_torch(self, *args, **kwargs)
        try:
            return call_of_torch(self, *args, **kwargs)
        finally:
            _exchange(False)

    nn.Module._weft_replicates_plain = False
    nn.Module.__call__ = __call__
    _symbolic_trace._orig_module_call = __call__  # what torch.fx calls while it traces, in place of nn.Module.__call__
    dynamo = sys.modules.get("torch._dynamo.variables.nn_module")
    if dynamo is not None and is_torchs:
        dynamo.unpatched_nn_module_call = __call__  # as where it is imported later; modules that it concerns are in module_calls.py


def replace_method(module_class, name, replaced):
    """Replaces a method by `replaced(method)` in each class that defines it, the given one and its bases, once."""
    for owner in module_class.__mro__:
        method = vars(owner).get(name)
        if inspect.isfunction(method) and not hasattr(method, "_weft_of_class"):
            made = replaced(method)
            made._weft_of_class = method
            setattr(owner, name, made)


def _as_forward(generate):
    """A `generate` in which plain tensors count as replicated. Where it is given plain tensors alone, it returns plain ones:
    global tensors, the same on every rank."""

    @functools.wraps(generate)
    def on_both(self, *args, **kwargs):
        if not getattr(self, "_weft_replicates_plain", False) or _exchange(True):
            return generate(self, *args, **kwargs)
        try:
            result = generate(self, *args, **kwargs)
            is_distributed = any(_C.is_dtensor(value) for value in _containers.leaves((args, kwargs)))
            return result if is_distributed else _containers.mapped(global_value, result)
        finally:
            _exchange(False)

    return on_both


def set_replicates_plain(module, replicates_plain, alone=False):
    """Whether plain tensors count as replicated in the forward of a module and of each of its submodules, or of that one alone."""
    if not hasattr(nn.Module, "_weft_replicates_plain"):
        _install()
    for each in [module] if alone else module.modules():
        each._weft_replicates_plain = replicates_plain
    for module_class in {type(each) for each in module.modules()}:
        replace_method(module_class, "generate", _as_forward)
