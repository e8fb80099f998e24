"""torch.distributed.checkpoint.state_dict over modules with distributed parameters.

It knows torch's own DTensor alone. Entries without full_state_dict are right as they are: distributed tensors. With it,
those of a model or an optimizer are made global when they are read; a model takes global values, each rank its shards.
"""

from contextlib import nullcontext

from torch.utils import _pytree

from weft import _C
from weft._gather import detached_global_value
from weft._imports import when_imported


def _teach(state_dict_module):
    read_of_torch = state_dict_module._maybe_full_or_cpu_state_dict
    load_model_of_torch = state_dict_module._load_model_state_dict
    load_optimizer_of_torch = state_dict_module._load_optim_state_dict

    def read(state_dict, info):
        if info.full_state_dict:
            state_dict = _pytree.tree_map(detached_global_value, state_dict)
        return read_of_torch(state_dict, info)

    def load_model(model, state_dict, info):
        with _C.replicate_plain() if info.full_state_dict else nullcontext():
            return load_model_of_torch(model, state_dict, info)

    def load_optimizer(model, optimizers, state_dict, info):
        if info.handle_optim and info.full_state_dict and any(_C.is_dtensor(p) for p in model.parameters()):
            raise NotImplementedError(
                "[set_optimizer_state_dict] an optimizer of distributed parameters takes distributed values, but "
                "full_state_dict is set. Read and set it without, and save it with torch.distributed.checkpoint."
            )
        return load_optimizer_of_torch(model, optimizers, state_dict, info)

    state_dict_module._maybe_full_or_cpu_state_dict = read
    state_dict_module._load_model_state_dict = load_model
    state_dict_module._load_optim_state_dict = load_optimizer


def install():
    when_imported("torch.distributed.checkpoint.state_dict", _teach)
