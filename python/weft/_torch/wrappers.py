"""fully_shard around a model with distributed parameters: data parallel outside, each rank with rows of its own.

    weft.install()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    parallelize_module(model, mesh["tp"], plan)
    fully_shard(model, mesh=mesh["dp"])

Its parameters are distributed over both mesh dims, those of a plain model over one. torch makes them of the class DTensor, which
is Weft's while weft.install() holds. Without it torch would take a distributed parameter for a plain one and shard its shards.
"""

import functools

from weft import _C
from weft._imports import when_imported
from weft._install import is_installed


def _check(name, parameter):
    if _C.is_dtensor(parameter) and not is_installed():
        raise NotImplementedError(
            f"[fully_shard] plain parameters are required, but got '{name}', {_C.spec(parameter)}. Use weft.fully_shard, which takes "
            "the same arguments, or call weft.install() first."
        )


def _has_been_accumulated(parameter):
    """A hook that does nothing: a gradient with a hook after its accumulation is not kept back in a bucket."""


def _teach_fully_shard(fsdp_param):
    init_of_torch = fsdp_param.FSDPParam.__init__
    to_unsharded_of_torch = fsdp_param.FSDPParam.to_unsharded

    @functools.wraps(init_of_torch)
    def __init__(self, param, module_info, *args, **kwargs):
        _check(module_info.param_name, param)
        init_of_torch(self, param, module_info, *args, **kwargs)

    @functools.wraps(to_unsharded_of_torch)
    def to_unsharded(self):
        to_unsharded_of_torch(self)
        # torch reads the gradient as soon as backward has left the module.
        gathered = self._unsharded_param
        if gathered.requires_grad and _C.is_dtensor(gathered) and not gathered._post_accumulate_grad_hooks:
            gathered.register_post_accumulate_grad_hook(_has_been_accumulated)

    fsdp_param.FSDPParam.__init__ = __init__
    fsdp_param.FSDPParam.to_unsharded = to_unsharded


def install():
    when_imported("torch.distributed.fsdp._fully_shard._fsdp_param", _teach_fully_shard)
