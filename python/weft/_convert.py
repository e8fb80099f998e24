"""Between Weft's distributed tensors and those of torch.distributed.tensor, without copying; both ways are differentiable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from weft import _C, _groups
from weft._install import original

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def _is_unknown_to_torch(placement):
    has_unequal_blocks = isinstance(placement, _C.StridedShard) and len(set(placement.blocks)) > 1
    return has_unequal_blocks or isinstance(placement, _C.RaggedShard)


def _torch_placement(placement):
    def of_torch(name):
        return original("torch.distributed.tensor.placement_types", name)

    if _is_unknown_to_torch(placement):
        return placement
    if isinstance(placement, _C.Shard):
        return of_torch("Shard")(placement.dim)
    if isinstance(placement, _C.StridedShard):
        return of_torch("_StridedShard")(placement.dim, split_factor=placement.split_factor)
    if isinstance(placement, _C.Partial):
        return of_torch("Partial")(placement.reduce_op)
    return of_torch("Replicate")()


_placements = {}  # Weft's placements -> PyTorch's


def _torch_placements_of(placements):
    found = _placements.get(placements)
    if found is None:
        found = _placements[placements] = tuple(_torch_placement(each) for each in placements)
    return found


def torch_placements(tensor):
    """t.placements as PyTorch's objects."""
    return _torch_placements_of(_C.placements(tensor))


def torch_mesh(tensor):
    """t.device_mesh as PyTorch's object, where the mesh stands on process groups."""
    return _groups.known_torch_mesh(_C.device_mesh(tensor))


def torch_spec(tensor):
    """PyTorch's DTensorSpec of a distributed tensor."""
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry, TensorMeta

    spec = _C.spec(tensor)
    # PyTorch checks that each mesh dim of an order has its Shard, which a ragged one is not.
    is_ragged = [isinstance(placement, _C.RaggedShard) for placement in spec.placements]
    orders = [(dim, tuple(m for m in spec.shard_order(dim) if not is_ragged[m])) for dim in range(spec.ndim)]
    return DTensorSpec(
        _groups.known_torch_mesh(spec.mesh),
        _torch_placements_of(spec.placements),
        tensor_meta=TensorMeta(shape=spec.shape, stride=spec.stride, dtype=spec.dtype),
        shard_order=tuple(ShardOrderEntry(dim, mesh_dims) for dim, mesh_dims in orders if mesh_dims),
        # Weft keeps shard orders apart: a strided shard says which elements a rank holds and nothing else.
        use_strided_shard_as_shard_order=False,
    )


def check_shard_orders(where, spec):
    """Raises if mesh dims shard a tensor dim in another order than their own, which placements alone do not tell."""
    for dim in range(spec.ndim):
        order = spec.shard_order(dim)
        if order != sorted(order):
            raise NotImplementedError(
                f"[{where}] mesh dims must shard a tensor dim in their order, but got {spec}. Redistribute it first."
            )


def to_torch(tensor: Tensor) -> DTensor:
    """PyTorch's DTensor over the same local tensor."""
    DTensor = original("torch.distributed.tensor", "DTensor")
    spec = _C.spec(tensor)
    check_shard_orders("to_torch", spec)
    if any(map(_is_unknown_to_torch, spec.placements)):
        raise NotImplementedError(
            f"[to_torch] PyTorch has no ragged shard and none with blocks of different sizes, but got {spec}. Redistribute it "
            "first."
        )
    return DTensor.from_local(
        _C.to_local(tensor),
        _groups.torch_mesh_of(spec.mesh),
        _torch_placements_of(spec.placements),
        run_check=False,
        shape=spec.shape,
        stride=spec.stride,
    )


def from_torch(dtensor: DTensor) -> Tensor:
    """Weft's distributed tensor over the local tensor of PyTorch's."""
    from torch.distributed._functional_collectives import AsyncCollectiveTensor

    DTensor = original("torch.distributed.tensor", "DTensor")
    if not isinstance(dtensor, DTensor):
        raise TypeError(
            f"[from_torch] a DTensor of torch.distributed.tensor is required, but got {type(dtensor).__name__}. Of a local "
            "tensor use weft.from_local."
        )
    local = dtensor.to_local()
    if isinstance(local, AsyncCollectiveTensor):
        local = local.wait()
    return _C.from_local(
        local,
        _groups.converted_mesh("from_torch", dtensor.device_mesh),
        dtensor.placements,
        shape=dtensor.shape,
        stride=dtensor.stride(),
    )
