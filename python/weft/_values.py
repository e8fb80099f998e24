"""Values of a distributed tensor as lists and arrays: tolist(), numpy() and numpy's own conversion.

Every rank holds all values of a replicated tensor, so these work as on a plain one. Otherwise they would have to communicate,
which a program that merely prints on one rank does not expect: they raise and name full_tensor(). In the forward and the
`generate` of a parallelised module, which every rank runs alike, they gather.
"""

import functools

import torch

from weft import _C

_is_dtensor = _C.is_dtensor


def _values(name, tensor):
    if _C.in_parallel_forward():
        return _C.full_tensor(tensor)
    if not all(placement.is_replicate() for placement in _C.placements(tensor)):
        raise RuntimeError(
            f"[{name}] a replicated tensor is required, but got {_C.spec(tensor)}, of which a rank holds only its local tensor. "
            "Use full_tensor() for the global tensor, or to_local() for this rank's local tensor."
        )
    return _C.to_local(tensor)


def _reading_values(method):
    @functools.wraps(method)
    def read(self, *arguments, **options):
        return method(_values(method.__name__, self) if _is_dtensor(self) else self, *arguments, **options)

    return read


def install():
    for name in ("tolist", "numpy"):
        if name not in torch.Tensor.__dict__:
            setattr(torch.Tensor, name, _reading_values(getattr(torch.Tensor, name)))
