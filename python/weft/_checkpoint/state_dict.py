"""torch.distributed.checkpoint over distributed tensors: state dicts of modules and optimizers, and dcp.async_save.

torch.distributed.checkpoint.state_dict knows torch's own DTensor alone. Entries without full_state_dict are right as they are:
distributed tensors. With it they are made global when they are read, and global values, of every rank or of the first one
(broadcast_from_rank0), are given the layouts of a model or an optimizer when they are set.
"""

from torch.utils import _pytree

from weft import _C
from weft._gather import detached_global_value
from weft._imports import when_imported


def _distributed_like(value, like):
    """A global value, which every rank has, in the layout of a distributed tensor."""
    if not _C.is_dtensor(like) or _C.is_dtensor(value):
        return value
    return _C.distribute_tensor(value.detach(), _C.device_mesh(like), _C.placements(like), src_data_rank=None)


def _teach_state_dict(module):
    read_of_torch = module._maybe_full_or_cpu_state_dict
    distribute_of_torch = module._distribute_state_dict
    broadcast_of_torch = module._broadcast_state_dict
    load_model_of_torch = module._load_model_state_dict
    load_optimizer_of_torch = module._load_optim_state_dict

    def read(state_dict, info):
        if info.full_state_dict:
            state_dict = _pytree.tree_map(detached_global_value, state_dict)
        return read_of_torch(state_dict, info)

    def distribute(full_state_dict, local_state_dict, *args, **kwargs):
        for key, value in full_state_dict.items():
            like = local_state_dict.get(key)
            distribute_of_torch({key: value}, local_state_dict, *args, **kwargs)
            if _C.is_dtensor(like):
                local_state_dict[key] = _distributed_like(local_state_dict[key], like)

    def broadcast(full_state_dict, local_state_dict, *args, **kwargs):
        like = {key: value for key, value in local_state_dict.items() if _C.is_dtensor(value)}
        broadcast_of_torch(full_state_dict, local_state_dict, *args, **kwargs)
        for key, value in local_state_dict.items():  # those of one element, which were not sent as tensors
            local_state_dict[key] = _distributed_like(value, like.get(key))

    def load_model(model, state_dict, info):
        # Torch puts the distributed values into the dict that it gets.
        return load_model_of_torch(model, dict(state_dict), info)

    def load_optimizer(model, optimizers, state_dict, info):
        # Torch compares the global values, whose structure it restores first, with those of the optimizer.
        flattens = info.flatten_optimizer_state_dict
        info.flatten_optimizer_state_dict = flattens and not info.full_state_dict
        try:
            load_optimizer_of_torch(model, optimizers, state_dict, info)
        finally:
            info.flatten_optimizer_state_dict = flattens

    module._load_model_state_dict = load_model
    module._load_optim_state_dict = load_optimizer
    module._maybe_full_or_cpu_state_dict = read
    module._distribute_state_dict = distribute
    module._broadcast_state_dict = broadcast


def _teach_broadcast(module):
    of_torch = module._broadcast_tensors

    def broadcast_tensors(full_state_dict, local_state_dict, keys, *args, **kwargs):
        """One tensor at a time: a rank holds one global tensor, and keeps its shard."""
        like = {key: local_state_dict.get(key) for key in keys}
        of_torch(full_state_dict, local_state_dict, keys, *args, **kwargs)
        for key, tensor in like.items():
            if _C.is_dtensor(tensor):
                local_state_dict[key] = _distributed_like(local_state_dict[key], tensor)

    module._broadcast_tensors = broadcast_tensors


def _teach_stager(module):
    of_torch = module.StateDictStager._offload_tensor

    def offload(self, x, memo, non_blocking=False):
        if not _C.is_dtensor(x):
            return of_torch(self, x, memo, non_blocking)
        memo[id(x)] = copy = _C.copy_on_cpu(x)
        return copy

    module.StateDictStager._offload_tensor = offload


def install():
    when_imported("torch.distributed._state_dict_utils", _teach_broadcast)
    when_imported("torch.distributed.checkpoint.state_dict", _teach_state_dict)
    when_imported("torch.distributed.checkpoint._state_dict_stager", _teach_stager)
