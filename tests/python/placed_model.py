"""A model whose parameters have layouts of their own, for tests that compare steps of training with those of one device."""

import copy

import weft
from torch import nn
from weft import Replicate


def placed(model, layouts, mesh):
    """A copy of the model on a mesh: parameters are placed as `layouts` says by name, {"0.weight": Shard(0)}, else replicated."""

    def place(name, module, mesh):
        for own, parameter in list(module.named_parameters(recurse=False)):
            layout = layouts.get(f"{name}.{own}", Replicate())
            module.register_parameter(own, nn.Parameter(weft.distribute_tensor(parameter.data, mesh, [layout])))

    return weft.distribute_module(copy.deepcopy(model), mesh, place)


def plain(tensor):
    return (tensor.full_tensor() if weft.is_dtensor(tensor) else tensor).detach()
