"""Models of Hugging Face's transformers: their own plan, their layer with a transposed weight, how they are saved and their
vocabulary is resized, and what Trainer and accelerate are told of them."""

from __future__ import annotations

import functools

import torch
from torch import nn

from weft import _C
from weft._huggingface import accelerate as _accelerate
from weft._huggingface.trainer import wait_for_all
from weft._modules.distribute import place
from weft._modules.forward import replace_method


def is_transposed_linear(module: nn.Module) -> bool:
    """Whether a module is transformers' Conv1D, a linear layer with a weight of [inputs, outputs]."""
    return any((kind.__module__, kind.__name__) == ("transformers.pytorch_utils", "Conv1D") for kind in type(module).__mro__)


def _names(module):
    yield from (path for path, _ in module.named_modules(remove_duplicate=False))
    yield from (path for path, _ in module.named_parameters(remove_duplicate=False))


def plan_of(model: nn.Module) -> dict[str, str]:
    """The plan of the model's own, its `tp_plan`, without patterns for layers that this model of its family does not have."""
    plan = getattr(model, "tp_plan", None)
    if not plan:
        raise ValueError(
            f'[parallelize_module] the plan "auto" is the tp_plan of a model of transformers, but {type(model).__name__} has none. '
            "Give a style, a dict or a plan file."
        )
    names = list(_names(model))
    matched = {pattern: style for pattern, style in plan.items() if any(_C.path_matches(pattern, name) for name in names)}
    if not matched:
        raise ValueError(
            f'[parallelize_module] the plan "auto" must match layers of the model, but none of {list(plan)} is one of '
            f"{type(model).__name__}. Parallelize a model before it is wrapped, by peft for example."
        )
    return matched


def _mesh_of(model):
    return next((_C.device_mesh(p) for p in model.parameters() if _C.is_dtensor(p)), None)


def _gathered(state_dict, keeps):
    """The state dict with global tensors; tied ones stay tied. Without `keeps` the values are gathered for others alone."""
    made, result = {}, {}
    for name, value in state_dict.items():
        if _C.is_dtensor(value):
            if id(value) not in made:
                gathered = _C.full_tensor(value.detach())
                made[id(value)] = gathered if keeps else None
            value = made[id(value)]
        result[name] = value.detach() if isinstance(value, torch.Tensor) else value
    return result


def _resizing_global_tensors(resize):
    """A `resize_token_embeddings` for every rank to call: layers keep their layouts and hooks, and the first rank draws the
    new rows."""

    @functools.wraps(resize)
    def on_both(self, *args, **options):
        mesh = _mesh_of(self)
        if mesh is None:
            return resize(self, *args, **options)
        ends = (self.get_input_embeddings, self.set_input_embeddings), (self.get_output_embeddings, self.set_output_embeddings)
        layers = [(get(), put, dict(get()._parameters)) for get, put in ends if get() is not None]
        made: dict[int, nn.Parameter] = {}
        for layer, _, parameters in layers:
            for name, parameter in parameters.items():
                if parameter is not None and _C.is_dtensor(parameter):
                    if id(parameter) not in made:
                        made[id(parameter)] = nn.Parameter(_C.full_tensor(parameter.detach()), parameter.requires_grad)
                    layer._parameters[name] = made[id(parameter)]
        resize(self, *args, **options)
        placed: dict[int, tuple] = {}
        for (layer, put, parameters), (get, _) in zip(layers, ends):
            resized = get()
            if resized is not layer:  # a new linear layer, without the hooks
                layer._parameters, layer.out_features = resized._parameters, resized.out_features
            for name, before in parameters.items():
                parameter = layer._parameters[name]
                if before is not None and _C.is_dtensor(before) and not _C.is_dtensor(parameter):
                    if parameter.shape == before.shape:
                        layer._parameters[name] = before
                    else:
                        place(layer, name, parameter, mesh, _C.placements(before), placed)
            put(layer)  # also ties what else holds the parameters, as BERT's bias
        return self.get_input_embeddings()

    return on_both


def _saving_global_tensors(save_pretrained):
    """A `save_pretrained` for every rank to call: the first rank of the mesh writes, and the others return after it has."""

    @functools.wraps(save_pretrained)
    def on_both(self, save_directory, is_main_process=True, state_dict=None, **options):
        mesh = _mesh_of(self)
        if mesh is None:
            return save_pretrained(self, save_directory, is_main_process, state_dict, **options)
        is_first = not any(mesh.get_coordinate())
        # With keep_vars tied parameters are one object.
        state_dict = _gathered(self.state_dict(keep_vars=True) if state_dict is None else state_dict, is_first)
        if is_first and is_main_process:
            save_pretrained(self, save_directory, is_main_process, state_dict, **options)
        wait_for_all(mesh)
        return None

    return on_both


def adopt(model: nn.Module, mesh: _C.DeviceMesh) -> None:
    """Tells transformers and accelerate of a parallelised model.

    If it is on all processes that there are, they are one process to Trainer, and the model is as one that transformers has
    sharded by itself, which it neither wraps nor moves. Otherwise nothing is said: Trainer wraps it by
    DistributedDataParallel.
    """
    is_on_all = _accelerate.adopt(mesh)
    if hasattr(type(model), "is_distributed_loading_by_transformers"):
        replace_method(type(model), "save_pretrained", _saving_global_tensors)
        replace_method(type(model), "resize_token_embeddings", _resizing_global_tensors)
        model._is_distributed_loading_by_transformers = is_on_all
