"""torch.export of parallelised modules: this rank's program, on its local tensors, with functional collectives.

torch.export is given a module of the same names whose parameters are the local tensors. Its forward makes them distributed tensors
of what the tracer has in their place, and calls the parallelised module with them (traced_tensor.py).
"""

import functools
import os
import tempfile
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree

from weft import _C
from weft._groups import current_world, torch_mesh_of
from weft._imports import replace, when_imported
from weft._trace.make_fx import Layouts, local_value, spec_of


def _named_tensors(module):
    """Parameters and buffers under all of their names, with the modules that own them."""
    for path, owner in module.named_modules(remove_duplicate=False):
        for named in (owner._parameters, owner._buffers):
            for name, tensor in named.items():
                if tensor is not None:
                    yield path, owner, name, tensor


class _LocalModule(nn.Module):
    """A module with the names of another one and its local tensors."""

    def __init__(self, module, flat_specs):
        super().__init__()
        self.training = module.training
        self.__dict__["outputs"] = []
        wrapped, locals_made = {}, {}
        for path, owner, name, tensor in _named_tensors(module):
            local = locals_made.get(id(tensor))
            if local is None:
                local = locals_made[id(tensor)] = local_value(tensor).detach()
                if name in owner._parameters:
                    local = locals_made[id(tensor)] = nn.Parameter(local, tensor.requires_grad)
            of = self._module_at(path)
            if name in owner._parameters:
                of.register_parameter(name, local)
            else:
                of.register_buffer(name, local, persistent=name not in owner._non_persistent_buffers_set)
            if _C.is_dtensor(tensor):
                _, spec, is_parameter = _C.traced_parts(tensor)
                wrapped[f"{path}.{name}".lstrip(".")] = spec, is_parameter

        @functools.wraps(module.forward)  # for the names of its arguments
        def forward(*args, **kwargs):
            state = {}
            for path, _, name, tensor in _named_tensors(self):
                name = f"{path}.{name}".lstrip(".")
                state[name] = _C.wrap_local_tensor(tensor, *wrapped[name]) if name in wrapped else tensor
            leaves, structure = _pytree.tree_flatten((args, kwargs))
            leaves = [v if spec is None else _C.wrap_local_tensor(v, spec, False) for v, spec in zip(leaves, flat_specs)]
            args, kwargs = _pytree.tree_unflatten(leaves, structure)
            result = torch.func.functional_call(module, state, args, kwargs, tie_weights=False)  # under all names
            self.outputs[:] = [spec_of(value) for value in _pytree.tree_leaves(result)]
            return _pytree.tree_map(local_value, result)

        self.__dict__["forward"] = forward

    def _module_at(self, path):
        owner = self
        for name in path.split(".") if path else ():
            if name not in owner._modules:
                owner.add_module(name, nn.Module())
            owner = owner._modules[name]
        return owner


def _export_local(export_of_torch, module, args, kwargs, dynamic_shapes):
    leaves = _pytree.tree_leaves((args, kwargs))
    distributed = [t for t in [*leaves, *(t for *_, t in _named_tensors(module))] if _C.is_dtensor(t)]
    meshes = {str(_C.spec(t).mesh): _C.spec(t).mesh for t in distributed}
    if len(meshes) > 1:
        raise ValueError(
            f"[torch.export] distributed tensors of one mesh are required, but got those of {' and '.join(meshes)}. "
            "Parallelize the module on one mesh of several dims."
        )
    if dynamic_shapes is not None:
        raise ValueError(
            "[torch.export] a parallelised module is exported for the sizes of its example inputs, but got dynamic_shapes. "
            "Export it once for each size, or export the plain module and make it parallel by weft.tensor_parallel."
        )
    (mesh,) = meshes.values()
    if mesh.size() > 1:
        torch_mesh_of(mesh)  # raises where there are no process groups
    specs = [spec_of(leaf) for leaf in leaves]
    args, kwargs = _pytree.tree_map(local_value, (args, kwargs))
    local = _LocalModule(module, specs)
    # Below autograd, where the operators on local tensors are seen; non-strict, which runs the module's own code.
    program = export_of_torch(local, args, kwargs, strict=False, pre_dispatch=False)
    program.weft_layouts, program.weft_mesh = Layouts(specs, list(local.outputs)), mesh
    return program


def _route(trace):
    export_of_torch = trace._export

    @functools.wraps(export_of_torch)
    def _export(mod, args, kwargs=None, dynamic_shapes=None, **options):
        values = [*_pytree.tree_leaves((args, kwargs)), *(t for *_, t in _named_tensors(mod))]
        if any(_C.is_dtensor(value) for value in values):
            return _export_local(export_of_torch, mod, args, kwargs or {}, dynamic_shapes)
        return export_of_torch(mod, args, kwargs, dynamic_shapes, **options)

    replace(trace, "_export", _export)


def _of_all_ranks(mesh, value):
    """What each rank of a mesh has, in the order of its ranks."""
    if mesh.size() == 1:
        return [value]
    torch_mesh, values = torch_mesh_of(mesh), [value]
    for dim in reversed(range(mesh.ndim)):
        group = torch_mesh.get_group(dim)
        gathered: list[Any] = [None] * torch.distributed.get_world_size(group)
        torch.distributed.all_gather_object(gathered, values, group)
        values = [value for some in gathered for value in some]
    return values


def _on_all_ranks(mesh, function):
    """The results of a function on all ranks. An error of one is raised on all."""
    try:
        outcome = function(), None
    except Exception as error:
        outcome = None, str(error)
    outcomes = _of_all_ranks(mesh, outcome)
    for rank, (_, error) in zip(mesh.mesh.flatten().tolist(), outcomes):
        if error is not None:
            raise ValueError(error if error.startswith("[") else f"[save_exported] rank {rank}: {error}")
    return [result for result, _ in outcomes]


def save_exported(program: torch.export.ExportedProgram, folder: str | os.PathLike) -> None:
    """Writes the programs of all ranks, which torch.export made of a parallelised module, into a folder for `weft run`.

    All ranks of the mesh call it, with a folder that all of them see:

        program = torch.export.export(model, (x,))
        weft.save_exported(program, "out")          # then: weft run out --input x.safetensors --output y.safetensors
    """
    layouts = getattr(program, "weft_layouts", None)
    if layouts is None:
        raise ValueError(
            "[save_exported] the program that torch.export made of a parallelised module is required, but got another one, or "
            "one that was changed since. Use torch.export.save for programs of plain modules."
        )
    from weft._trace.traced_tensor import dims_of_groups

    mesh, rank = program.weft_mesh, current_world().rank
    is_first = rank == mesh.mesh.flatten()[0]
    new_folder = None

    def begin():
        nonlocal new_folder
        new_folder = _C.NewFolder(os.fspath(folder)) if is_first else None
        return new_folder.path if is_first else None

    def write():
        with tempfile.TemporaryDirectory(prefix="weft-") as own:
            traced = os.path.join(own, "traced.pt2")
            torch.export.save(program, traced)
            return _C.write_traced(traced, path, rank, dims_of_groups(mesh))

    path = _on_all_ranks(mesh, begin)[0]
    files = _on_all_ranks(mesh, write)
    _on_all_ranks(mesh, lambda: new_folder.complete(mesh, files, layouts.inputs, layouts.outputs) if is_first else None)


def install():
    when_imported("torch.export._trace", _route)
