"""Forward mode AD (torch.autograd.forward_ad, torch.func.jvp) where ranks are threads.

torch has one level of dual tensors for the process, not for each thread. A rank that ends its level would end it for the
other ranks of the process as well, and their tangents would be gone. So ranks that are threads may not enter one.
"""

import functools

import torch.autograd.forward_ad as _forward_ad

from weft import _C


def _refusing(enter_of_torch):
    @functools.wraps(enter_of_torch)
    def enter_dual_level():
        if _C.in_world_scope() and _C.current_world().size > 1:
            raise NotImplementedError(
                f"[forward_ad] forward mode AD needs one rank per process, but this is one of {_C.current_world().size} ranks "
                "that are threads. Run the program with torchrun, or use torch.autograd.functional.jvp, which needs no "
                "forward mode."
            )
        return enter_of_torch()

    return enter_dual_level


def install():
    _forward_ad.enter_dual_level = _refusing(_forward_ad.enter_dual_level)
