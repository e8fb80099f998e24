"""AsyncLocalTensor: what to_local() gives of a tensor that a collective still writes."""

import torch
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from torch.utils._pytree import tree_map_only

from weft import _C

# What reads or shares the memory of a tensor without an operator. They run on the values that have arrived.
_READS_MEMORY = {
    torch.Tensor.__array__,
    torch.Tensor.__deepcopy__,
    torch.Tensor.__dlpack__,
    torch.Tensor.__reduce_ex__,
    torch.Tensor.__cuda_array_interface__.__get__,
    torch.Tensor.data_ptr,
    torch.Tensor.numpy,
    torch.Tensor.share_memory_,
    torch.Tensor.storage,
    torch.Tensor.tolist,
    torch.Tensor.untyped_storage,
}


class AsyncLocalTensor(AsyncCollectiveTensor):
    """The local tensor of a rank, which waits for the collective that writes it when it is read: by an operator, a view,
    numpy() or data_ptr(). Shape, dtype and device are known before. In C++ its memory raises until wait() has been called.
    """

    @staticmethod
    def __new__(cls, tensor):
        shape, _ = _C.local_shape_and_offset(tensor)
        self = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=tensor.dtype, device=tensor.device)
        _C.refuse_memory(self)
        self._tensor = tensor
        self.completed = False
        return self

    def __init__(self, tensor):
        pass

    def trigger_wait(self):
        if not self.completed:
            self._local = _C.arrived_local(self._tensor)
            self._tensor = None
            self.completed = True
        return self._local

    wait = trigger_wait

    @property
    def elem(self):
        return self.trigger_wait()

    def __repr__(self):
        return f"AsyncLocalTensor({self.trigger_wait()})"

    def numpy(self, **options):
        return _values(self).numpy(**options)

    def tolist(self):
        return _values(self).tolist()

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in _READS_MEMORY:
            args, kwargs = tree_map_only(cls, _values, (args, kwargs))
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func._schema.is_mutable and torch.is_grad_enabled():
            _refuse_writes(func, args, kwargs)
        args, kwargs = tree_map_only(cls, AsyncLocalTensor.trigger_wait, (args, kwargs))
        return func(*args, **kwargs)


def _values(tensor):
    """The local tensor; raises where torch does for a tensor that requires a gradient."""
    local = tensor.trigger_wait()
    return local.view_as(local).requires_grad_() if tensor.requires_grad else local


def _refuse_writes(func, args, kwargs):
    for i, argument in enumerate(func._schema.arguments):
        value = args[i] if i < len(args) else kwargs.get(argument.name)
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        if is_written and isinstance(value, AsyncLocalTensor) and value.requires_grad:
            raise RuntimeError(
                f"[{func.name()}] a local tensor that requires a gradient is a view of a distributed tensor and is being "
                "modified inplace, which the graph of that tensor would not notice. Clone it first."
            )


class _ToLocal(torch.autograd.Function):
    @staticmethod
    def forward(context, tensor):
        context.set_materialize_grads(False)
        context.tensor = tensor.detach()
        return AsyncLocalTensor(context.tensor)

    @staticmethod
    def backward(context, gradient):
        if gradient is None:
            return None
        with torch.enable_grad():
            tensor = context.tensor.detach().requires_grad_()
            local = _C.arrived_local(tensor)
        return torch.autograd.grad(local, tensor, gradient, create_graph=torch.is_grad_enabled())[0]


def to_local(tensor):
    if torch.is_grad_enabled() and tensor.requires_grad:
        return _ToLocal.apply(tensor)
    return AsyncLocalTensor(tensor.detach())
