"""What importing weft adds to torch.Tensor: attributes that distributed tensors have and plain ones do not, and seven
methods of torch's own that ask first which of the two a tensor is."""

import copy
import functools
import types

import torch

from weft import _C, _convert
from weft._checkpoint import dcp_blocks, pickled

_is_dtensor = _C.is_dtensor


class _Attribute:
    """Computed for a distributed tensor; raises AttributeError for every other one. It has no __set__, so that a plain tensor
    may be given an attribute of this name. Asked of the class it is the function, because torch lists the class's attributes
    and does not know descriptors of this kind."""

    def __init__(self, name, compute):
        self.name = name
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __get__(self, tensor, owner=None):
        if tensor is None:
            return self.compute
        if not _is_dtensor(tensor):
            raise AttributeError(f"'{type(tensor).__name__}' object has no attribute '{self.name}'")
        return self.compute(tensor)


class _LocalTensor(_Attribute):
    """Can be assigned: fully_shard puts a parameter that was loaded into memory of its own."""

    def __get__(self, tensor, owner=None):
        if tensor is not None and not _is_dtensor(tensor) and self.name in tensor.__dict__:
            return tensor.__dict__[self.name]
        return super().__get__(tensor, owner)

    def __set__(self, tensor, value):
        if not _is_dtensor(tensor):
            tensor.__dict__[self.name] = value
            return
        spec = _C.spec(tensor)
        made = _C.from_local(value.detach(), spec.mesh, spec.layout, shape=spec.shape, stride=spec.stride)
        if _C.spec(made) != spec:
            raise ValueError(f"[_local_tensor] a local tensor of {spec} is required, but got one of {_C.spec(made)}. Use redistribute.")
        tensor.data = made


class _Method(_Attribute):
    def __get__(self, tensor, owner=None):
        if tensor is None:
            return self.compute
        if not _is_dtensor(tensor):
            raise AttributeError(f"'{type(tensor).__name__}' object has no attribute '{self.name}'")
        return types.MethodType(self.compute, tensor)


def _install_attributes():
    attributes = {
        "placements": _C.placements,
        "device_mesh": _C.device_mesh,
        "_local_tensor": _C.local_tensor,
        "_spec": _convert.torch_spec,
    }
    methods = {
        "to_local": _C.to_local,
        "redistribute": _C.redistribute,
        "full_tensor": _C.full_tensor,
        "__create_write_items__": dcp_blocks.create_write_items,
        "__create_chunk_list__": dcp_blocks.create_chunk_list,
        "__get_tensor_shard__": dcp_blocks.get_tensor_shard,
    }
    for name, compute in attributes.items():
        setattr(torch.Tensor, name, (_LocalTensor if name == "_local_tensor" else _Attribute)(name, compute))
    for name, compute in methods.items():
        setattr(torch.Tensor, name, _Method(name, compute))


def give_torch_objects(wanted):
    """Whether t.placements and t.device_mesh are PyTorch's objects, as code that is not changed expects."""
    placements = _convert.torch_placements if wanted else _C.placements
    mesh = _convert.torch_mesh if wanted else _C.device_mesh
    torch.Tensor.placements = _Attribute("placements", placements)
    torch.Tensor.device_mesh = _Attribute("device_mesh", mesh)


def _memory_of(local):
    """The first byte of a tensor in its storage, and the one after its last."""
    begin = local.storage_offset()
    end = begin + 1 + sum((size - 1) * stride for size, stride in zip(local.shape, local.stride())) if local.numel() else begin
    return begin * local.element_size(), end * local.element_size()


def _copy_of_memory(tensor, memo):
    """A copy; tensors that share memory have copies that do, as in torch, where storages are copied once each. The shards of a fully
    sharded unit are in one storage and share nothing."""
    if tensor._base is not None:
        base = _copy_of_memory(tensor._base.detach(), memo)
        return base.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    local = tensor.to_local()
    begin, end = _memory_of(local)
    copies = memo.setdefault("weft", {}).setdefault(local.untyped_storage()._cdata, [])
    shared = [each for each in copies if each[0] < end and begin < each[1]]
    if not shared:
        copied = tensor.clone()
        copies.append((begin, end, tensor, copied))
        return copied
    first, last, original, copied = shared[0]
    if (first, last) != (begin, end) or _C.spec(original) != _C.spec(tensor) or original.stride() != tensor.stride():
        raise NotImplementedError(
            f"[deepcopy] {_C.spec(tensor)} shares its memory with {_C.spec(original)} without being a view of it that autograd "
            "knows, so that their copies could not share theirs. Copy them one by one."
        )
    return copied.detach()


def _deepcopy(tensor, memo):
    if not tensor.is_leaf:
        raise RuntimeError(
            f"[deepcopy] a leaf is required, but got {_C.spec(tensor)} with a graph behind it. Copy tensor.detach()."
        )
    if id(tensor) in memo:
        return memo[id(tensor)]
    with torch.no_grad():
        result = _copy_of_memory(tensor.detach() if tensor._base is None else tensor, memo)
    result.requires_grad_(tensor.requires_grad)
    if tensor.grad is not None:
        result.grad = copy.deepcopy(tensor.grad, memo)
    memo[id(tensor)] = result
    result.__dict__ = copy.deepcopy(tensor.__dict__, memo)
    return result


def _new_tensor(tensor, data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """The new tensor is replicated, as those of the other new_ methods are; it is plain on another type of device."""
    made = torch.tensor(data, dtype=dtype or tensor.dtype, device=device or tensor.device, pin_memory=pin_memory)
    if made.device.type == tensor.device.type:
        made = _C.from_local(made, _C.device_mesh(tensor))
    return made.requires_grad_(requires_grad)


def _refuse_memory(method):
    """The method, with an error that says what to do where it is called on a distributed tensor."""

    @functools.wraps(method)
    def checked(self, *arguments, **options):
        if _is_dtensor(self):
            raise RuntimeError(
                f"[{method.__name__}] a tensor with memory of its own is required, but got {_C.spec(self)}, of which a rank "
                "holds only its local tensor. Use full_tensor() for the global tensor, or to_local() for this rank's local tensor."
            )
        return method(self, *arguments, **options)

    return checked


def _install_methods():
    plain_repr, plain_deepcopy, plain_reduce_ex, plain_register_hook, plain_new_tensor = (
        torch.Tensor.__repr__,
        torch.Tensor.__deepcopy__,
        torch.Tensor.__reduce_ex__,
        torch.Tensor.register_hook,
        torch.Tensor.new_tensor,
    )

    def __repr__(self, *, tensor_contents=None):
        if _is_dtensor(self):
            return _C.to_string(self)
        return plain_repr(self, tensor_contents=tensor_contents)

    def __deepcopy__(self, memo):
        return _deepcopy(self, memo) if _is_dtensor(self) else plain_deepcopy(self, memo)

    def __reduce_ex__(self, protocol):
        return pickled.reduced(self) if _is_dtensor(self) else plain_reduce_ex(self, protocol)

    def register_hook(self, hook):
        # The first hook that Python registers removes those of C++: the hook that keeps the gradient's layout is added again.
        replaces = _is_dtensor(self) and self.is_leaf and self._backward_hooks is None
        handle = plain_register_hook(self, hook)
        if replaces:
            _C.keep_gradient_layout(self)
        return handle

    def new_tensor(self, data, **options):
        return _new_tensor(self, data, **options) if _is_dtensor(self) else plain_new_tensor(self, data, **options)

    for method, plain in (
        (__repr__, plain_repr),
        (__deepcopy__, plain_deepcopy),
        (__reduce_ex__, plain_reduce_ex),
        (register_hook, plain_register_hook),
        (new_tensor, plain_new_tensor),
    ):
        method.__qualname__ = plain.__qualname__
        method.__doc__ = plain.__doc__
        setattr(torch.Tensor, method.__name__, method)
    torch.Tensor.__dlpack__ = _refuse_memory(torch.Tensor.__dlpack__)


def install():
    if not isinstance(torch.Tensor.__dict__.get("placements"), _Attribute):
        _install_attributes()
        _install_methods()
