"""Modules of torch that wrap a model and cannot wrap one with distributed parameters.

Nothing that they do to a parameter when they are made raises: fully_shard would shard the shards and fail in forward.
"""

import functools

from weft import _C
from weft._imports import when_imported


def _check_plain(wrapper, name, parameter):
    if _C.is_dtensor(parameter):
        raise NotImplementedError(
            f"[{wrapper}] plain parameters are required, but got '{name}', {_C.spec(parameter)}. Leave it out: give the mesh a "
            "dim over which the batch is sharded, and backward() reduces the gradients over it."
        )


def _teach_fully_shard(fsdp_param):
    init_of_torch = fsdp_param.FSDPParam.__init__

    @functools.wraps(init_of_torch)
    def __init__(self, param, module_info, *args, **kwargs):
        _check_plain("fully_shard", module_info.param_name, param)
        init_of_torch(self, param, module_info, *args, **kwargs)

    fsdp_param.FSDPParam.__init__ = __init__


def install():
    when_imported("torch.distributed.fsdp._fully_shard._fsdp_param", _teach_fully_shard)
