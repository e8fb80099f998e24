"""tensor_parallel: an exported program in, this rank's exported program out. C++ does it, through files."""

from __future__ import annotations

import inspect
import os
import tempfile
import zipfile
from collections.abc import Mapping
from typing import Any

import torch

from weft import _C
from weft._groups import torch_mesh_of
from weft._install import original
from weft._parallelize import Plan, plan_from
from weft._styles import ParallelStyle, _text
from weft._torch_styles import style_from_torch


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


def _checksums(path: str) -> dict[str, int]:
    """The checksums of a saved program's weights, by record, as the zip file stores them."""
    with zipfile.ZipFile(path) as file:
        records = {entry.filename.split("/", 1)[1]: entry.CRC for entry in file.infolist()}
    return {name: crc for name, crc in records.items() if name.startswith(("data/weights/", "data/constants/"))}


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
) -> torch.export.ExportedProgram:
    """Makes an exported program parallel by a plan, and returns the program of this rank.

    `mesh` is one of Weft or of torch.distributed, whose process groups the program's collectives run on. The plan is as for
    parallelize_module: styles by module path, Weft's or torch's, or a plan file. Inputs and outputs are replicated, unless
    `input_layouts` (by the input's name) and `output_layouts` (by position) say otherwise, one placement per mesh dim.
    `overlap` says whether collectives overlap the matmuls that need them: "auto" where that pays, by the rates of `link`
    ("50us,125MB/s") and `compute` ("100Gflop/s,27GB/s,1us") or else constants, which must be the same on all ranks; "off"
    nowhere; "force" wherever possible. Ranks whose weights, plans or options differ raise. The given program is not changed,
    and the result computes the same values.
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
        torch.export.save(exported_program, given)
        plan = plan_from(plan)
        options = (
            mesh_dim,
            {name: _layout_text(layout) for name, layout in (input_layouts or {}).items()},
            {position: _layout_text(layout) for position, layout in (output_layouts or {}).items()},
            overlap,
            link,
            compute,
        )
        _check_alike(mesh, {"weights": _checksums(given), "plan": str(plan), "options": options})
        program = _C.ShardedProgram(given, text, plan, *options)
        program.write(rank, own, _group_names(mesh, program.groups()))
        return torch.export.load(own)


def tensor_parallel_transformation(
    exported_program: torch.export.ExportedProgram,
    rank: int,
    world_size: int,
    device_type: str,
    parallel_strategies: Mapping[str, Any],
) -> torch.export.ExportedProgram:
    """PyTorch's function of this name, on Weft's compiler: styles may be classes or instances, whose layouts count."""
    mesh = original("torch.distributed.device_mesh", "init_device_mesh")(device_type, (world_size,), mesh_dim_names=("tp",))
    if mesh.get_rank() != rank:
        raise ValueError(
            f"[tensor_parallel_transformation] rank must be this process's, {mesh.get_rank()}, but got {rank}."
        )
    return tensor_parallel(exported_program, mesh, parallel_strategies)
