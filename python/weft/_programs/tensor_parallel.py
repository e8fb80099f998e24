"""tensor_parallel: an exported program in, this rank's exported program out. C++ does it, through files."""

from __future__ import annotations

import copy
import inspect
import os
import tempfile
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from weft import _C
from weft._groups import torch_mesh_of
from weft._install import original
from weft._parallel.parallelize import Plan, plan_from
from weft._parallel.styles import ParallelStyle, _text
from weft._parallel.torch_styles import style_from_torch


def _style(path: str, style: Any) -> Any:
    """The style as a plan file says it, from a style of Weft or of torch, given as its class or an instance."""
    if inspect.isclass(style):
        try:
            style = style()
        except TypeError as error:
            raise TypeError(
                f"[tensor_parallel] the style of {path!r} must be given with its layouts, but got the class "
                f"{style.__name__}: {error}."
            ) from None
    if isinstance(style, (ParallelStyle, str, Mapping)):
        return style
    found = style_from_torch(style)
    if found is None:
        raise TypeError(
            f"[tensor_parallel] the style of {path!r} must be one of Weft's or of torch.distributed.tensor.parallel, but got "
            f"{type(style).__qualname__}."
        )
    return found


def _torch_mesh(mesh: Any) -> Any:
    return torch_mesh_of(mesh) if isinstance(mesh, _C.DeviceMesh) else mesh


def _names(mesh: Any) -> tuple[str, ...]:
    return tuple(mesh.mesh_dim_names or (f"d{i}" for i in range(mesh.ndim)))


def _group_names(mesh: Any, wanted: list[str]) -> dict[str, str]:
    """torch's names of the groups along mesh dims. Groups over several mesh dims are made here, by all ranks in one order."""
    names = _names(mesh)
    found = {}
    for text in wanted:
        dims = text.split(",")
        if len(dims) == 1:
            found[text] = mesh.get_group(names.index(dims[0])).group_name
        else:
            found[text] = mesh[tuple(dims)]._flatten().get_group().group_name
    return found


def _weights(program: torch.export.ExportedProgram) -> dict[str, torch.Tensor]:
    """Parameters, buffers and constants by name."""
    named = {**program.state_dict, **program.constants}
    return {name: named[name].detach() for name in sorted(named) if isinstance(named[name], torch.Tensor)}


def _without_weights(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """The program with stand-ins of one number for its weights, so that a file of it is small."""
    stand_ins: dict[tuple, torch.Tensor] = {}

    def stand_in(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor):
            return tensor
        key = (tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.shape, tensor.dtype)
        if key not in stand_ins:
            stand_ins[key] = torch.zeros((), dtype=tensor.dtype).expand(tensor.shape)
        found = stand_ins[key]
        return torch.nn.Parameter(found, tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else found

    return updated(
        program,
        program.graph_module,
        program.graph_signature,
        state_dict={name: stand_in(tensor) for name, tensor in program.state_dict.items()},
        constants={name: stand_in(tensor) for name, tensor in program.constants.items()},
    )


def updated(
    program: torch.export.ExportedProgram,
    module: torch.fx.GraphModule,
    signature: torch.export.ExportGraphSignature,
    state_dict: dict[str, Any] | None = None,
    constants: dict[str, Any] | None = None,
) -> torch.export.ExportedProgram:
    """A copy of the program with another graph, and perhaps other tensors."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch copies its tree specs by a way that it deprecates
        calls = copy.deepcopy(program.module_call_graph)
    # What is recorded of the calls of inner modules names values, which may be inside of one operator now.
    names = {node.name for node in module.graph.nodes}
    for call in calls:
        values = [] if call.signature is None else [*call.signature.inputs, *call.signature.outputs]
        if call.fqn and any(value.name and value.name not in names for value in values):
            call.signature = None
    return torch.export.ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict=program.state_dict if state_dict is None else state_dict,
        range_constraints=copy.deepcopy(program.range_constraints),
        module_call_graph=calls,
        example_inputs=program.example_inputs,
        constants=program.constants if constants is None else constants,
        verifiers=program.verifiers,
    )


def _described(tensor: torch.Tensor) -> tuple:
    return tuple(tensor.shape), str(tensor.dtype)


class _FirstRanksWeights:
    """The weights of the mesh's first rank, one at a time: all ranks ask for the same names in the same order."""

    def __init__(self, mesh: Any, weights: Mapping[str, torch.Tensor]):
        self._groups = [mesh.get_group(dim) for dim in range(mesh.ndim)]
        self._weights = weights

    def __call__(self, name: str) -> torch.Tensor:
        tensor = self._weights[name].clone(memory_format=torch.contiguous_format)
        for group in self._groups:  # along each dim from its first rank, which has got it along those before
            torch.distributed.broadcast(tensor, group_src=0, group=group)
        return tensor


def _check_alike(mesh: Any, given: dict[str, Any]) -> None:
    """Raises on all ranks where their arguments differ: the local programs would belong to different programs."""
    for dim in range(mesh.ndim):
        group = mesh.get_group(dim)
        ranks = torch.distributed.get_process_group_ranks(group)
        all_given: list[Any] = [None] * len(ranks)
        torch.distributed.all_gather_object(all_given, given, group=group)
        for rank, other in zip(ranks, all_given):
            for what, value in all_given[0].items():
                if other[what] != value:
                    raise ValueError(
                        f"[tensor_parallel] all ranks must be given the same {what}, but those of ranks {ranks[0]} and {rank} "
                        "differ. Seed the ranks alike before the model is made, or load one checkpoint on all of them."
                    )


def _layout_text(layout: Any) -> str:
    placements = layout if isinstance(layout, (tuple, list)) else (layout,)
    return "{" + ", ".join(_text(placement) for placement in placements) + "}"


def tensor_parallel(
    exported_program: torch.export.ExportedProgram,
    mesh: Any,
    plan: Plan,
    *,
    mesh_dim: str | None = None,
    input_layouts: Mapping[str, Any] | None = None,
    output_layouts: Mapping[int, Any] | None = None,
    overlap: str = "auto",
    link: str | None = None,
    compute: str | None = None,
    broadcast_weights: bool = False,
) -> torch.export.ExportedProgram:
    """Makes an exported program parallel by a plan, and returns the program of this rank.

    `mesh` is one of Weft or of torch.distributed, whose process groups the program's collectives run on. The plan is as for
    parallelize_module: styles by module path, Weft's or torch's, or a plan file. Inputs and outputs are replicated, unless
    `input_layouts` (by the input's name) and `output_layouts` (by position) say otherwise, one placement per mesh dim.
    `overlap` says whether collectives overlap the matmuls that need them: "auto" where that pays, by the rates of `link`
    ("50us,125MB/s") and `compute` ("100Gflop/s,27GB/s,1us") or else constants, which must be the same on all ranks; "off"
    nowhere; "force" wherever possible. Ranks whose plans or options differ raise, and those whose weights differ, unless
    `broadcast_weights` says that the weights of the mesh's first rank count, which it sends while they are sharded. The given
    program is not changed, and the result computes the same values.
    """
    if isinstance(plan, Mapping):
        plan = {path: _style(path, style) for path, style in plan.items()}
    mesh = _torch_mesh(mesh)
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        raise ValueError(f"[tensor_parallel] this rank is not in {mesh}. Call tensor_parallel on its ranks only.")
    rank = 0
    for position, size in zip(coordinate, mesh.mesh.shape):
        rank = rank * size + position
    text = ",".join(f"{name}={size}" for name, size in zip(_names(mesh), mesh.mesh.shape))
    with tempfile.TemporaryDirectory(prefix="weft-") as folder:
        given, own = os.path.join(folder, "given.pt2"), os.path.join(folder, "own.pt2")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "No complete tensor found")  # stand-ins are smaller than their shapes
            torch.export.save(_without_weights(exported_program), given)
        plan = plan_from(plan)
        options = (
            mesh_dim,
            {name: _layout_text(layout) for name, layout in (input_layouts or {}).items()},
            {position: _layout_text(layout) for position, layout in (output_layouts or {}).items()},
            overlap,
            link,
            compute,
        )
        weights = _weights(exported_program)
        facts = {name: _described(weight) for name, weight in weights.items()}
        if not broadcast_weights:
            facts = {name: (*fact, _C.checksum(weights[name])) for name, fact in facts.items()}
        options = (*options, broadcast_weights)
        _check_alike(mesh, {"weights": facts, "plan": str(plan), "options": options})
        program = _C.ShardedProgram(given, text, plan, *options[:-1], weights=weights)
        source = _FirstRanksWeights(mesh, weights) if broadcast_weights else None
        program.write(rank, own, _group_names(mesh, program.groups()), source)
        return torch.export.load(own)


def tensor_parallel_transformation(
    exported_program: torch.export.ExportedProgram,
    rank: int,
    world_size: int,
    device_type: str,
    parallel_strategies: Mapping[str, Any],
    *,
    broadcast_weights: bool = False,
) -> torch.export.ExportedProgram:
    """PyTorch's function of this name, on Weft's compiler: styles may be classes or instances, whose layouts count.

    Ranks whose weights differ raise; with `broadcast_weights` those of rank 0 count.
    """
    mesh = original("torch.distributed.device_mesh", "init_device_mesh")(device_type, (world_size,), mesh_dim_names=("tp",))
    if mesh.get_rank() != rank:
        raise ValueError(
            f"[tensor_parallel_transformation] rank must be this process's, {mesh.get_rank()}, but got {rank}."
        )
    return tensor_parallel(exported_program, mesh, parallel_strategies, broadcast_weights=broadcast_weights)
