"""torch.optim.Muon over distributed matrices.

Muon makes each gradient nearly orthogonal by five iterations of three products, in bfloat16. On a sharded matrix every product
would communicate, and sum in another order than on a single device, which the iterations amplify. Gathered once, in bfloat16, the
matrix gives the result of a single device, and every rank keeps its shard of it.
"""

import functools

import torch
import torch.optim

from weft import _C
from weft._gather import on_replicated


def _gathering(of_torch):
    @functools.wraps(of_torch)
    def orthogonalized(grad, *args, **kwargs):
        if not _C.is_dtensor(grad):
            return of_torch(grad, *args, **kwargs)
        return on_replicated(lambda gathered: of_torch(gathered, *args, **kwargs), grad.bfloat16())

    return orthogonalized


def install():
    module = getattr(torch.optim, "_muon", None)  # not every version of torch has it
    if module is not None and not hasattr(module._zeropower_via_newtonschulz, "__wrapped__"):
        module._zeropower_via_newtonschulz = _gathering(module._zeropower_via_newtonschulz)
