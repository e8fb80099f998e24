"""Distributed tensors in programs that torch traces: torch.compile, torch.export, make_fx.

While something traces, a distributed tensor is a TracedTensor: a C++ tensor as always, whose local tensor is one of the
tracer's (fake, functional), and whose Python class torch knows as a wrapper of it. The tracer gives operators on it back to
Weft's own kernels, which decide as in eager mode and call the local operators; these, and functional collectives, are what the
tracer records. Compiled code is given this rank's local tensors, and its results become distributed tensors again, both at
the boundary of the compiled region (compile.py).
"""

import functools
from typing import NamedTuple

import torch
from torch.utils import _pytree
from torch.utils._python_dispatch import _disable_current_modes

from weft import _C
from weft._trace.open_sizes import generalise, has_open_sizes, know_kernels_with_gradients, over_open_sizes, with_open_sizes


class Wrapped(NamedTuple):
    """What a distributed tensor is, apart from its local tensor. Operators keep parameters where they are."""

    spec: _C.TensorSpec
    is_parameter: bool


class TracedTensor(torch.Tensor):
    """A distributed tensor of a traced local tensor. It exists only while something traces."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, op, types, args=(), kwargs=None):
        kernel = functools.partial(_C.call_own_kernel, op._schema.name, op._schema.overload_name)
        leaves = _pytree.tree_leaves((args, kwargs))
        if any(map(has_open_sizes, leaves)):
            for leaf in leaves:
                if isinstance(leaf, torch.Tensor) and not _C.is_dtensor(leaf):
                    _C.keep_gradient_plain(leaf)  # as the kernel does, which is given tensors of other sizes
            return over_open_sizes(kernel, args, kwargs or {})
        return kernel(*args, **(kwargs or {}))

    @property
    def _local_tensor(self):
        return _C.traced_parts(self)[0]

    def __repr__(self, *, tensor_contents=None):
        return f"TracedTensor({_C.spec(self)})"

    def _stable_hash_for_caching(self):
        """Keeps AOTAutograd from storing the region's boundary on disk: a spec belongs to this process's world. Inductor stores
        the code between, which has local tensors alone."""
        from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache

        raise BypassAOTAutogradCache("a distributed tensor of Weft")

    def untyped_storage(self):
        """That of the local tensor, so that tracers see which tensors share memory. What a tracer is shown first has none of
        its own: the tracer would make the tensor a view of what stands for the local tensor's storage."""
        return self._no_storage if "_no_storage" in self.__dict__ else self._local_tensor.untyped_storage()

    def __tensor_flatten__(self):
        _, spec, is_parameter = _C.traced_parts(self)
        return ["_local_tensor"], Wrapped(spec, is_parameter)

    @staticmethod
    def __tensor_unflatten__(inner_tensors, wrapped, outer_size, outer_stride):
        """A distributed tensor: traced if the local tensor is, otherwise one as of eager mode."""
        return with_open_sizes(inner_tensors["_local_tensor"], *wrapped, outer_size, outer_stride)

    def __coerce_tangent_metadata__(self):
        """A tensor with the layout that the gradient of this one has: no terms of a sum."""
        wanted = tuple(p if not p.is_partial() else _C.Replicate() for p in _C.placements(self))
        return _C.redistribute(self, placements=wanted)

    def __coerce_same_metadata_as_tangent__(self, wrapped, expected_type=None):
        return in_layout_of(self, wrapped.spec)

    @staticmethod
    def __metadata_guard__(traced, given):
        return traced == given


def in_layout_of(tensor, wanted):
    """The tensor with the layout of a spec. Raises where more than the layout differs."""
    spec = _C.spec(tensor)
    if spec == wanted:
        return tensor
    result = _C.redistribute(tensor, placements=wanted.layout)
    if _C.spec(result) != wanted and result.shape == wanted.shape:
        order = sorted(range(wanted.ndim), key=lambda dim: (-wanted.stride[dim], dim))
        back = sorted(range(wanted.ndim), key=lambda dim: order[dim])
        result = result.permute(order).contiguous().permute(back)
    found = _C.spec(result)
    is_alike = (found.mesh, found.layout, found.shape, found.dtype) == (wanted.mesh, wanted.layout, wanted.shape, wanted.dtype)
    # The strides of dims with one element say nothing.
    if not is_alike or any(
        size > 1 and given != stride for size, given, stride in zip(found.shape, found.stride, wanted.stride) if found.shape.numel() > 0
    ):
        raise ValueError(
            f"[torch.compile] a gradient like {wanted} is required, but got {spec}. Compile the function that uses the "
            "output together with it."
        )
    return result


def traced_form(tensor, fake_mode):
    """A distributed tensor as the tracer is shown it: the same local tensor, of the class above. One per tracer, so that it
    gets one fake tensor."""
    if isinstance(tensor, TracedTensor):
        return tensor
    forms = fake_mode.__dict__.setdefault("_weft_forms", torch.utils.weak.WeakIdKeyDictionary())
    form = forms.get(tensor)
    if form is None:
        know_kernels_with_gradients()
        form = _C.traced_form(tensor)
        form.requires_grad_(tensor.requires_grad)
        form._no_storage = torch.UntypedStorage(0)
        if isinstance(tensor, torch.nn.Parameter):
            form._is_param = True
        marks = {name: value for name, value in tensor.__dict__.items() if name.startswith("_dynamo_")}
        for each in (form, form._local_tensor):  # mark_dynamic and its like
            each.__dict__.update(marks)
        forms[tensor] = form
    return form


_dims_of_groups = {}  # (text of the mesh, name of a group) -> the mesh dims that it spans


def _name_group(mesh, mesh_dims):
    names = tuple(mesh.mesh_dim_names[dim] for dim in mesh_dims)
    # A group over several dims is made when first needed: by messages between ranks, which are no part of the program.
    with _disable_current_modes():
        of_dims = mesh if len(names) == mesh.ndim == 1 else mesh[names]
        name = (of_dims if len(names) == 1 else of_dims._flatten()).get_group().group_name
    _dims_of_groups[str(mesh), name] = ",".join(names)
    return name


def dims_of_groups(mesh):
    """The mesh dims of the groups whose collectives were recorded on this mesh, by the names of the groups."""
    return {name: dims for (text, name), dims in _dims_of_groups.items() if text == str(mesh)}


@torch.library.register_fake("weft::random_call")
def _(index, *, device=None):
    return torch.empty(2, dtype=torch.int64)


@torch.library.register_fake("weft::random_numbers")
def _(call, indices, shape, dtype, device, kind, a, b, first, count):
    return torch.empty(shape, dtype=dtype, device=device)


_C.trace_as(TracedTensor, _name_group, generalise)
