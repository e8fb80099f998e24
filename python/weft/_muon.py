"""torch.optim.Muon over distributed matrices.

Muon makes each gradient nearly orthogonal by five iterations of three products, in bfloat16. On a sharded matrix every product
would communicate, and sum in another order than on a single device, which the iterations amplify. Gathered once, in bfloat16, the
matrix gives the result of a single device, of which every rank keeps its shard.
"""

import functools

import torch
import torch.optim

from weft import _C


def _on_replicated(of_torch):
    @functools.wraps(of_torch)
    def orthogonalized(grad, *args, **kwargs):
        if not _C.is_dtensor(grad):
            return of_torch(grad, *args, **kwargs)
        spec = _C.spec(grad)
        gathered = _C.redistribute(grad.bfloat16(), placements=[_C.Replicate()] * spec.mesh.ndim)
        return _C.redistribute(of_torch(gathered, *args, **kwargs), placements=spec.placements)

    return orthogonalized


def install():
    module = getattr(torch.optim, "_muon", None)  # not every version of torch has it
    if module is not None and not hasattr(module._zeropower_via_newtonschulz, "__wrapped__"):
        module._zeropower_via_newtonschulz = _on_replicated(module._zeropower_via_newtonschulz)
