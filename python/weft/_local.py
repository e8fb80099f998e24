"""Regions of code that see local tensors: local_map, with torch's interface, and local."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from weft import _C


def _has_uneven_shards(tensor):
    """Whether ranks hold shards of different sizes. Told by the spec, so that all ranks say the same."""
    mesh, sizes = _C.device_mesh(tensor), list(tensor.shape)
    for mesh_dim, placement in enumerate(_C.placements(tensor)):
        if placement.is_shard():
            if sizes[placement.dim] % mesh.size(mesh_dim) != 0:
                return True
            sizes[placement.dim] //= mesh.size(mesh_dim)
    return False


def _global_shape(where, local, mesh, placements):
    """The shape of a result whose shards differ in size, by one small all-reduce of the shapes."""
    table = torch.zeros((*mesh.shape, local.ndim), dtype=torch.int64, device=local.device)
    table[tuple(mesh.get_coordinate())] = torch.tensor(local.shape, device=local.device)
    table = _C.full_tensor(_C.from_local(table, mesh, [_C.Partial()] * mesh.ndim))
    shape = table[(0,) * mesh.ndim].tolist()
    for tensor_dim in range(local.ndim):
        sharding = [m for m, p in enumerate(placements) if p.is_shard(tensor_dim) or p.is_shard(tensor_dim - local.ndim)]
        along = table[..., tensor_dim]
        for mesh_dim in reversed(range(mesh.ndim)):
            along = along.sum(mesh_dim) if mesh_dim in sharding else along.select(mesh_dim, 0)
        shape[tensor_dim] = int(along)
    held = _C.local_shape_and_offset(shape, mesh, placements)[0]
    if tuple(held) != tuple(local.shape):
        raise ValueError(
            f"[{where}] a result {placements} of shape {tuple(shape)} must be divided as torch.chunk does, so that this rank "
            f"holds {tuple(held)}, but got {tuple(local.shape)}. Return shards of one size, or another layout."
        )
    return shape


class _Region:
    """A function on local tensors, called with distributed ones. `inputs` and `grads` are by flat position."""

    def __init__(self, where, function, *, inputs, outputs, grads, mesh, redistributes):
        self.where, self.function = where, function
        self.inputs, self.outputs, self.grads = inputs, outputs, grads
        self.mesh, self.redistributes = mesh, redistributes

    def __call__(self, flat, structure, keywords):
        mesh, is_uneven, is_distributed, local = self.mesh, False, False, []
        if self.inputs is not None and len(self.inputs) != len(flat):
            raise AssertionError(
                f"[{self.where}] one entry of in_placements is required for each of the {len(flat)} flat arguments, but got "
                f"{len(self.inputs)}. Write None for what is no tensor."
            )
        for number, value in enumerate(flat):
            if not _C.is_dtensor(value):
                self._check_plain(number, value)
                local.append(value)
                continue
            mesh = _C.device_mesh(value) if mesh is None else mesh
            is_distributed = True
            value = self._laid_out(number, value)
            is_uneven = is_uneven or _has_uneven_shards(value)
            local.append(_C.to_local(value, grad_placements=self._grads_of(number, value)))
        result = self.function(*tree_unflatten(local, structure), **keywords)
        return self._distributed(result, mesh, is_uneven) if is_distributed else result

    def _check_plain(self, number, value):
        wanted = None if self.inputs is None else self.inputs[number]
        if wanted is not None and not isinstance(value, torch.Tensor):
            raise AssertionError(
                f"[{self.where}] Non-Tensor input {value} expects None placements, but got {wanted}. Write None for argument {number}."
            )

    def _laid_out(self, number, value):
        if self.inputs is None:
            return value
        wanted = self.inputs[number]
        if wanted is None:
            raise AssertionError(
                f"[{self.where}] the DTensor input {_C.spec(value)} expects placements, but got None for argument {number}. "
                "Give one placement per mesh dim."
            )
        moved = value
        if not _has_placements(value, wanted):
            if not self.redistributes:
                raise ValueError(
                    f"[{self.where}] argument {number} must have the placements {tuple(wanted)}, but got {_C.spec(value)}. "
                    "Redistribute it, or set redistribute_inputs=True."
                )
            moved = _C.redistribute(value, placements=wanted)
        return moved

    def _grads_of(self, number, value):
        if self.grads is None:
            return None
        grads = self.grads(number, value) if callable(self.grads) else self.grads[number]
        if grads is None and not callable(self.grads):
            raise AssertionError(
                f"[{self.where}] the DTensor input {_C.spec(value)} expects in grad placements, but got None for argument "
                f"{number}. Give one placement per mesh dim."
            )
        return grads

    def _distributed(self, result, mesh, is_uneven):
        flat, structure = tree_flatten(result)
        layouts = self.outputs if isinstance(self.outputs, tuple) else (self.outputs,)
        if len(layouts) != len(flat):
            raise AssertionError(
                f"[{self.where}] one entry of out_placements is required for each of the {len(flat)} results, but got {len(layouts)}. "
                "Give a tuple of placements, None for what is no tensor."
            )
        return tree_unflatten([self._output(*each, mesh, is_uneven) for each in zip(flat, layouts)], structure)

    def _output(self, value, placements, mesh, is_uneven):
        if not isinstance(value, torch.Tensor):
            if placements is not None:
                raise AssertionError(
                    f"[{self.where}] Non-tensor output {value} expects None placements, but got {placements}."
                )
            return value
        if _C.is_dtensor(value):
            raise AssertionError(
                f"[{self.where}] torch.Tensor output expected, but got the distributed tensor {_C.spec(value)}. Return local "
                "tensors."
            )
        if placements is None:
            raise AssertionError(f"[{self.where}] a tensor output expects placements, but got None. Give one per mesh dim.")
        if not is_uneven or not any(placement.is_shard() for placement in placements):
            return _C.from_local(value, mesh, placements)
        return _C.from_local(value, mesh, placements, shape=_global_shape(self.where, value, mesh, list(placements)))


def _has_placements(value, wanted):
    normal = [_C.Shard(p.dim % value.ndim) if p.is_shard() and p.dim < 0 else p for p in wanted]
    return tuple(_C.placements(value)) == tuple(normal)


def local_map(
    func: Callable[..., Any] | None = None,
    out_placements: Any = None,
    in_placements: Any = None,
    in_grad_placements: Any = None,
    device_mesh: _C.DeviceMesh | None = None,
    *,
    redistribute_inputs: bool = False,
) -> Callable[..., Any]:
    """As torch.distributed.tensor.experimental.local_map: a function on local tensors becomes one on distributed tensors.

        rows = weft.local_map(sort_rows, out_placements=[Shard(0)], in_placements=([Shard(0)],))
        rows(x)                             # sort_rows sees this rank's rows; the result is distributed again

    Where shards differ in size, the global shape of a result is found by one small all-reduce. weft.local is the same with
    safer defaults.
    """
    if func is None:
        return functools.partial(
            local_map,
            out_placements=out_placements,
            in_placements=in_placements,
            in_grad_placements=in_grad_placements,
            device_mesh=device_mesh,
            redistribute_inputs=redistribute_inputs,
        )
    region = _Region(
        "local_map", func, inputs=in_placements, outputs=out_placements, grads=in_grad_placements, mesh=device_mesh,
        redistributes=redistribute_inputs,
    )

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        return region(*tree_flatten(args), kwargs)

    return wrapped


def local(
    func: Callable[..., Any] | None = None,
    *,
    inputs: Mapping[str, Sequence[_C.Placement]],
    outputs: Any,
    grads: Mapping[str, Sequence[_C.Placement]] | None = None,
) -> Callable[..., Any]:
    """A region of code that sees plain local tensors, with declared layouts at its boundary.

        @weft.local(inputs={"x": [Shard(0)], "weight": [Replicate()]}, outputs=[Shard(0)])
        def normalize(x, weight, eps=1e-6):
            return my_kernel(x, weight, eps)

        normalize(x, weight)                # distributed tensors in, a distributed tensor out

    `inputs` names the parameters that are tensors; they are redistributed to these layouts. `outputs` is the layout of the
    result, or a tuple of them for several results. With plain tensors alone the function runs as it is.

    Gradients: an input that is sharded over a mesh dim gets the gradient of its shard. Over a mesh dim where it is
    replicated, its gradient is the sum over the ranks if the outputs are sharded or partial there, because each rank
    computes one term, and is taken to be the same on all ranks if the outputs are replicated. If outputs are of both
    kinds, or collectives inside of the region say otherwise, name the layouts of gradients in `grads`.
    """
    if func is None:
        return functools.partial(local, inputs=inputs, outputs=outputs, grads=grads)
    signature = inspect.signature(func)
    for name in [*inputs, *(grads or ())]:
        if name not in signature.parameters:
            raise ValueError(
                f"[local] the name of a parameter of {func.__name__}{signature} is required, but got '{name}'."
            )
    names = list(inputs)
    layouts = outputs if isinstance(outputs, tuple) else (outputs,)

    def grads_of(number, value):
        name = names[number]
        if grads is not None and name in grads:
            return grads[name]
        return [_grad_placement(name, value, m, placement, layouts) for m, placement in enumerate(_C.placements(value))]

    @functools.wraps(func)
    def wrapped(*args, **kwargs):
        bound = signature.bind(*args, **kwargs)
        for name, value in bound.arguments.items():
            if name not in inputs and any(_C.is_dtensor(leaf) for leaf in tree_flatten(value)[0]):
                raise ValueError(
                    f"[local] a layout is required for every distributed tensor, but got none for '{name}' of {func.__name__}. "
                    "Name it in inputs."
                )

        def call(*tensors):
            bound.arguments.update((name, tensor) for name, tensor in zip(names, tensors) if name in bound.arguments)
            return func(*bound.args, **bound.kwargs)

        given = tuple(bound.arguments.get(name) for name in names)
        wanted = [inputs[name] if isinstance(value, torch.Tensor) else None for name, value in zip(names, given)]
        region = _Region("local", call, inputs=wanted, outputs=outputs, grads=grads_of, mesh=None, redistributes=True)
        return region(*tree_flatten(given, is_leaf=lambda value: value is not given), {})

    return wrapped


def _grad_placement(name, value, mesh_dim, placement, outputs):
    if placement.is_shard():
        return placement
    kinds = {layout[mesh_dim].is_replicate() for layout in outputs if layout is not None}
    if placement.is_partial() or not value.requires_grad or kinds == {True}:
        return _C.Replicate()
    if kinds == {False}:
        return _C.Partial()
    raise ValueError(
        f"[local] outputs of one kind, replicated or not, are required over mesh dim {mesh_dim} to know the gradient of '{name}', "
        "but got both. Say in grads whether it is Partial() or Replicate()."
    )
