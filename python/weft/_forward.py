"""The forward of a parallelised module, in which plain tensors among distributed ones count as replicated.

Masks, positions, rotary tables and caches are plain tensors that every rank makes alike. torch calls a module's forward and
hooks in nn.Module.__call__, which is replaced when the first module is parallelised: hooks of every submodule would cost
more, and miss exceptions like KeyboardInterrupt.
"""

from torch import nn

from weft import _C

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


def set_replicates_plain(module, replicates_plain):
    """Whether plain tensors count as replicated in the forward of a module and of each of its submodules."""
    if not hasattr(nn.Module, "_weft_replicates_plain"):
        _install()
    for each in module.modules():
        each._weft_replicates_plain = replicates_plain
