"""Programs of the zoo as files: how they are exported, and what goes in and comes out of them by name."""

import copy
from dataclasses import dataclass

import torch
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.utils._pytree import tree_leaves, tree_map


@dataclass(frozen=True)
class Variant:
    """A way in which users export."""

    name: str
    is_strict: bool = False
    is_decomposed: bool = False
    is_dynamic: bool = False


VARIANTS = {
    variant.name: variant
    for variant in (
        Variant("exported"),
        Variant("decomposed", is_decomposed=True),
        Variant("dynamic", is_dynamic=True),
        Variant("dynamic_decomposed", is_dynamic=True, is_decomposed=True),
        Variant("strict", is_strict=True),
        Variant("strict_decomposed", is_strict=True, is_decomposed=True),
        Variant("strict_dynamic", is_strict=True, is_dynamic=True),
    )
}


def variants_of(model):
    return [variant for variant in VARIANTS.values() if model.dynamic_shapes is not None or not variant.is_dynamic]


def made(model):
    """The same values at every call, whatever was drawn before."""
    torch.manual_seed(1)
    return model.make().train(model.training)


def inputs_of(model, **sizes):
    torch.manual_seed(2)
    return model.inputs(**sizes)


def export(model, variant):
    """Not decomposed: that is a step of its own."""
    return torch.export.export(
        made(model),
        inputs_of(model),
        dynamic_shapes=model.dynamic_shapes if variant.is_dynamic else None,
        strict=variant.is_strict,
    )


def copied(values):
    return tree_map(lambda value: value.clone() if isinstance(value, torch.Tensor) else value, values)


def named_inputs(program, inputs):
    """The tensors that a call of the program takes, by the names of its inputs; an int that may vary is a tensor of no dims."""
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    return {
        spec.arg.name: torch.as_tensor(value).contiguous()
        for spec, value in zip(specs, tree_leaves(inputs), strict=True)
        if not isinstance(spec.arg, ConstantArgument)
    }


def outputs_of(program, inputs):
    """What the program gives by itself, in order. It writes to a copy of its buffers: every call is a first one."""
    module = copy.deepcopy(program.module())
    with torch.no_grad():
        return [value.detach() for value in tree_leaves(module(*copied(inputs)))]
