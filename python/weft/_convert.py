"""Between Weft's distributed tensors and those of torch.distributed.tensor, without copying; both ways are differentiable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from weft import _C, _groups

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def _torch_placement(placement):
    from torch.distributed.tensor import Partial, Replicate, Shard
    from torch.distributed.tensor.placement_types import _StridedShard

    if isinstance(placement, _C.Shard):
        return Shard(placement.dim)
    if isinstance(placement, _C.StridedShard):
        return _StridedShard(placement.dim, split_factor=placement.split_factor)
    if isinstance(placement, _C.Partial):
        return Partial(placement.reduce_op)
    return Replicate()


def to_torch(tensor: Tensor) -> DTensor:
    """PyTorch's DTensor over the same local tensor."""
    from torch.distributed.tensor import DTensor

    spec = _C.spec(tensor)
    for dim in range(spec.ndim):
        order = spec.shard_order(dim)
        if order != sorted(order):
            raise NotImplementedError(
                f"[to_torch] mesh dims must shard a tensor dim in their order, but got {spec}. Redistribute it first."
            )
    return DTensor.from_local(
        _C.to_local(tensor),
        _groups.torch_mesh_of(spec.mesh),
        [_torch_placement(placement) for placement in spec.placements],
        run_check=False,
        shape=spec.shape,
        stride=spec.stride,
    )


def from_torch(dtensor: DTensor) -> Tensor:
    """Weft's distributed tensor over the local tensor of PyTorch's."""
    from torch.distributed._functional_collectives import AsyncCollectiveTensor
    from torch.distributed.tensor import DTensor

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
