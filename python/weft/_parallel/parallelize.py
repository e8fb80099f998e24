"""parallelize_module: distributes parameters and adds hooks as the C++ function lay_out says."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping
from typing import Any

from torch import nn

from weft import _C
from weft._fully_sharded.fully_shard import fully_shard
from weft._huggingface.transformers import adopt, is_transposed_linear, plan_of
from weft._install import is_installed
from weft._modules.distribute import check_module, place, replicate_what_is_plain
from weft._modules.forward import set_replicates_plain
from weft._parallel.styles import ParallelStyle
from weft._parallel.torch_styles import style_from_torch
from weft._parallel.unsharded_layers import warn_of_unsharded_layers

Plan = ParallelStyle | Mapping[str, Any] | str | os.PathLike | _C.ParallelPlan


def _applies_itself(style):
    """Whether a style is a user's own, with an _apply(module, device_mesh). The _apply of torch's styles counts while Weft
    is installed, because it makes torch's DTensors otherwise."""
    apply = getattr(type(style), "_apply", None)
    is_of_torch = getattr(apply, "__module__", "").startswith("torch.") and not is_installed()
    return callable(apply) and apply is not ParallelStyle._apply and not is_of_torch


def _with_own_styles(plan):
    """The plan with Weft's forms of PyTorch's styles."""
    if isinstance(plan, Mapping):
        return {pattern: style_from_torch(style) or style for pattern, style in plan.items()}
    return style_from_torch(plan) or plan


def _apply_own_styles(module, mesh, styles):
    """Returns the modules that have been made parallel, with their submodules."""
    done = set()
    for pattern, style in styles.items():
        # "*" is every child; the module itself is "".
        matched = [
            of for path, of in module.named_modules() if (path or not pattern) and _C.path_matches(pattern, path)
        ]
        if not matched:
            raise ValueError(
                f"[parallelize_module] every pattern of a plan must match a module, but {pattern!r} matches none of "
                f"{type(module).__name__}."
            )
        for of in matched:
            style._apply(of, mesh)
            done.update(of.modules())
    return done


def _style_json(style):
    return style.options if isinstance(style, ParallelStyle) else style


def plan_from(plan: Plan) -> _C.ParallelPlan:
    """The plan that a user gives as a style for the module itself, styles by pattern, or the path of a plan file."""
    if isinstance(plan, _C.ParallelPlan):
        return plan
    if isinstance(plan, (str, os.PathLike)):
        return _C.ParallelPlan.load(os.fspath(plan))
    styles = plan if isinstance(plan, Mapping) else {"": plan}
    for pattern, style in styles.items():
        if not isinstance(pattern, str):
            raise TypeError(
                f"[parallelize_module] a plan maps patterns, which are strings, to styles, but got {pattern!r} for one."
            )
        if not isinstance(style, (ParallelStyle, str, Mapping)) or _applies_itself(style):
            raise TypeError(
                f"[parallelize_module] the style of {pattern!r} must be one of weft's, or as in a plan file, but got "
                f"{type(style).__module__}.{type(style).__qualname__}; one of your own, with _apply(module, device_mesh), is for "
                "parallelize_module alone, and one that changes a style of torch needs weft.install()."
            )
    return _C.ParallelPlan.parse(json.dumps({pattern: _style_json(style) for pattern, style in styles.items()}))


def _kind(module):
    if isinstance(module, nn.Linear):
        return "linear"
    if isinstance(module, nn.Embedding):
        return "embedding"
    return "transposed_linear" if is_transposed_linear(module) else "other"


def _own_parameters(module):
    return [(name, parameter) for name, parameter in module._parameters.items() if parameter is not None]


@dataclasses.dataclass(frozen=True)
class _Step:
    """What an earlier plan has made of a module: a model may be made parallel in steps."""

    stays_plain: bool
    gives_plain_shards: bool


def _step_before(module):
    return getattr(module, "_weft_step", None) or _Step(stays_plain=False, gives_plain_shards=False)


def _is_settled(module, parameter, mesh):
    is_distributed = _C.is_dtensor(parameter) and _C.device_mesh(parameter) == mesh
    return is_distributed or _step_before(module).stays_plain


def _add_hooks(module, on_inputs, on_inputs_with_keywords, on_outputs):
    if on_inputs is not None:
        module.register_forward_pre_hook(on_inputs)
    if on_inputs_with_keywords is not None:
        module.register_forward_pre_hook(on_inputs_with_keywords, with_kwargs=True)
    if on_outputs is not None:
        module.register_forward_hook(on_outputs)


def _apply_styles(module, mesh, plan, done, src_data_rank, mesh_dim, replicate_plain):
    """`done` are modules that a user's own styles have made parallel."""
    # A module that is there under two names may be named by either.
    modules = list(module.named_modules(remove_duplicate=False))
    infos = [
        (path, _kind(of), [(name, list(p.shape), id(p)) for name, p in _own_parameters(of)]) for path, of in modules
    ]
    settled = {id(p) for _, of in modules for _, p in _own_parameters(of) if _is_settled(of, p, mesh)}
    placed: dict[int, Any] = {}
    has_plain_shards = False
    seen, hooks_of = set(), {}
    laid_out = _C.lay_out(plan, infos, mesh, mesh_dim, settled)
    warn_of_unsharded_layers(
        [(of, path, kind, layout) for (path, of), (_, kind, _), layout in zip(modules, infos, laid_out) if of not in done],
        settled,
    )
    for (path, of), (placements, hooks, gives_plain_shards, is_named, _, replicates_buffers) in zip(modules, laid_out):
        for (name, parameter), wanted in zip([] if of in seen else _own_parameters(of), placements):
            if wanted is not None and not (of in done and _C.is_dtensor(parameter)):
                place(of, name, parameter, mesh, wanted, placed, src_data_rank)
        before = _step_before(of)
        stays_plain = not replicates_buffers or (before.stays_plain and not is_named)
        if not stays_plain:
            replicate_what_is_plain(of, mesh, placed, src_data_rank)
        if hooks is not None and (is_named or of not in hooks_of):
            hooks_of[of] = hooks
        seen.add(of)
        gives_plain_shards = gives_plain_shards or before.gives_plain_shards
        of._weft_step = _Step(stays_plain, gives_plain_shards)
        has_plain_shards = has_plain_shards or gives_plain_shards
    for of, hooks in hooks_of.items():
        _add_hooks(of, *hooks)
    set_replicates_plain(module, not has_plain_shards if replicate_plain is None else replicate_plain)
    adopt(module, mesh)


def _fully_shard(module, mesh, plan):
    modules = list(module.named_modules(remove_duplicate=False))
    done = set()
    for number, mesh_dim, replicate_dim, reshard_after_forward in plan.units_of([path for path, _ in modules]):
        of = modules[number][1]
        if of not in done:
            fully_shard(of, mesh, mesh_dim, replicate_dim=replicate_dim, reshard_after_forward=reshard_after_forward)
        done.add(of)


def parallelize_module(
    module: nn.Module,
    device_mesh: _C.DeviceMesh | None = None,
    parallelize_plan: Plan | None = None,
    *,
    src_data_rank: int | None = 0,
    mesh_dim: str | None = None,
    replicate_plain: bool | None = None,
) -> nn.Module:
    """Makes a model parallel by a plan: distributes its parameters, and redistributes activations at module boundaries.

    The plan is a map from module paths, with wildcards (`layers.*.attention.w[qkv]`), to styles, the path of a JSON
    file of the same, or "auto" for the plan of a model of transformers, its `tp_plan`. It is for the mesh dim
    `mesh_dim`: by default "tp", or the only one; along the others parameters are replicated, and the gradients of a batch
    that is sharded over them are reduced in backward().

    An entry with "shard", `"layers.*": {"shard": "dp"}`, names modules that are fully sharded over that mesh dim after the styles have
    been applied, the innermost first; see fully_shard. A plan of such entries alone changes nothing else.

    What the plan does not name is replicated. Where it gives out plain tensors (use_local_output), the rest of the model
    works on these and stays as it is.

    A model may be made parallel in steps, a submodule first and then the module around it: what an earlier plan distributed,
    or left plain for plain tensors, stays as it is unless this plan names it.

    In the forward of the model and its submodules plain tensors among distributed ones (masks, positions, caches) count as
    replicated, the same on every rank; `replicate_plain=False` makes them an error, as they are elsewhere. That is the
    default where the plan gives out plain tensors that are shards.

    A style of your own, with a method `_apply(module, device_mesh)`, is given the modules that its pattern matches, before
    all others. Where a plan has only such styles, nothing else is changed.
    """
    check_module("parallelize_module", module)
    if parallelize_plan is None:
        raise ValueError("[parallelize_module] a plan is required, but got none. Give a style, a dict or a plan file.")
    mesh = _C.current_mesh("parallelize_module", device_mesh)
    if parallelize_plan == "auto":
        parallelize_plan = plan_of(module)
    parallelize_plan = _with_own_styles(parallelize_plan)
    if isinstance(parallelize_plan, Mapping) or _applies_itself(parallelize_plan):
        styles = parallelize_plan if isinstance(parallelize_plan, Mapping) else {"": parallelize_plan}
        own = {pattern: style for pattern, style in styles.items() if _applies_itself(style)}
        parallelize_plan = {pattern: style for pattern, style in styles.items() if pattern not in own}
        done = _apply_own_styles(module, mesh, own)
        if own and not parallelize_plan:
            if replicate_plain is not None:
                set_replicates_plain(module, replicate_plain)
            return module
    else:
        done = set()
    plan = plan_from(parallelize_plan)
    if plan.has_styles or not plan.has_units:
        _apply_styles(module, mesh, plan, done, src_data_rank, mesh_dim, replicate_plain)
    _fully_shard(module, mesh, plan)
    return module
