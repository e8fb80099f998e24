"""The class DTensor, which distributed tensors are instances of without being made by it."""

import warnings
from typing import TYPE_CHECKING

import torch

from weft import _C


class _DTensorType(type(torch.Tensor)):
    def __instancecheck__(cls, instance):
        return _C.is_dtensor(instance)


class DTensor(torch.Tensor, metaclass=_DTensorType):
    """isinstance(t, DTensor) is true of a distributed tensor, which is an ordinary torch.Tensor (or nn.Parameter)."""

    def __new__(cls, local_tensor, spec=None, *, requires_grad=False):
        """As PyTorch's: of this rank's local tensor and a spec, of Weft or of PyTorch; has no way for gradients."""
        if spec is None:
            raise TypeError(
                "[DTensor] a spec is required, but got none. Distributed tensors are made by functions: weft.distribute_tensor of "
                "a global tensor, weft.DTensor.from_local of this rank's local tensor, or weft.zeros and the like."
            )
        if local_tensor.requires_grad and not requires_grad:
            warnings.warn(
                "[DTensor] gradients do not reach a local tensor through DTensor(local, spec, ...), but got one that requires "
                "them. Use DTensor.from_local, or give local_tensor.detach().",
                stacklevel=2,
            )
        layout = spec.layout if isinstance(spec, _C.TensorSpec) else spec.placements
        made = _C.from_local(local_tensor.detach(), spec.mesh, layout, shape=spec.shape, stride=spec.stride)
        return made.detach().requires_grad_(requires_grad)

    @staticmethod
    def from_local(
        local_tensor,
        device_mesh=None,
        placements=None,
        *,
        run_check=False,
        shape=None,
        stride=None,
        grad_placements=None,
    ):
        """weft.from_local. As in PyTorch, a global shape is given with its stride."""
        if (shape is None) != (stride is None):
            raise ValueError(
                f"[from_local] shape and stride must be given together, but got shape {shape} and stride {stride}. Give both, or "
                "the shape alone to weft.from_local, of a contiguous tensor."
            )
        return _C.from_local(
            local_tensor,
            device_mesh,
            placements,
            run_check=run_check,
            shape=shape,
            stride=stride,
            grad_placements=grad_placements,
        )

    to_local = _C.to_local
    redistribute = _C.redistribute
    full_tensor = _C.full_tensor

    if TYPE_CHECKING:

        @property
        def placements(self) -> tuple[_C.Placement, ...]: ...
        @property
        def device_mesh(self) -> _C.DeviceMesh: ...


# As PyTorch's: what a distributed tensor is made of, for code that goes through the attributes of a class.
DTensor.__slots__ = ["_local_tensor", "_spec"]
