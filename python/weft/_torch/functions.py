"""Functions of torch that are written in Python and make tensors from shapes: zeros for the hidden state of an LSTM, offsets of
an embedding bag, random samples of a pooling. Those are plain tensors, the same on every rank, which the function mixes with
its distributed arguments. They count as replicated while the function runs on distributed tensors; a plain tensor that the
caller gives is an error as everywhere.

Where such a function draws random numbers, they come from Weft's stream, since torch's may differ between ranks.

The rules of torch.vmap, in C++, make such tensors too, behind operators that make none by themselves (an embedding): in it
plain tensors that Python has never held count as replicated.
"""

import functools

import torch
import torch.utils._pytree as pytree
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from weft import _C, _imports

# By owner: several owners hold the same function under one name.
_FUNCTIONS = {
    ("torch.functional", "torch"): ["unravel_index"],
    ("torch.nn.functional",): ["embedding_bag", "linear_cross_entropy", "multi_head_attention_forward"],
    ("torch.masked._ops", "torch.masked"): ["mean", "median", "norm", "normalize", "std", "var"],
    ("torch.nn.RNN",): ["forward"],
    ("torch.nn.LSTM",): ["forward"],
    ("torch.nn.GRU",): ["forward"],
    ("torch.nn.RNNCell",): ["forward"],
    ("torch.nn.LSTMCell",): ["forward"],
    ("torch.nn.GRUCell",): ["forward"],
    ("torch.nn.modules.transformer",): ["_detect_is_causal_mask"],
    ("torch.nn.utils.parametrizations._Orthogonal",): ["forward"],
}
_DRAWING_FUNCTIONS = {
    ("torch._lowrank", "torch.functional", "torch"): ["svd_lowrank", "pca_lowrank"],
    ("torch._lobpcg", "torch"): ["lobpcg"],
    ("torch.nn.utils.parametrizations._Orthogonal",): ["right_inverse"],
    ("torch.nn.functional",): [
        "fractional_max_pool2d",
        "fractional_max_pool2d_with_indices",
        "fractional_max_pool3d",
        "fractional_max_pool3d_with_indices",
    ],
}


class _DrawingFromWeft(TorchDispatchMode):
    def __init__(self, mesh):
        super().__init__()
        self.mesh = mesh
        aten = torch.ops.aten
        self.factories = {aten.rand.default: _C.rand, aten.randn.default: _C.randn}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        draw = self.factories.get(function)
        if draw is None:
            return function(*args, **kwargs)
        dtype = kwargs.get("dtype") or torch.get_default_dtype()
        return _C.to_local(draw(args[0], device_mesh=self.mesh, dtype=dtype))


def _tensors(args, kwargs):
    for value in pytree.tree_leaves((args, kwargs)):
        if isinstance(value, torch.Tensor):
            yield value, True
        elif isinstance(value, nn.Module):
            for parameter in value.parameters():
                yield parameter, False


def _distributed(name, args, kwargs):
    """A distributed tensor among the arguments and the parameters of modules among them, or None."""
    tensors = list(_tensors(args, kwargs))
    found = next((tensor for tensor, _ in tensors if _C.is_dtensor(tensor)), None)
    if found is not None:
        for tensor, is_argument in tensors:
            if is_argument and not _C.is_dtensor(tensor) and not _C.counts_as_replicated(tensor):
                raise ValueError(
                    f"[{name}] distributed and plain tensors cannot be mixed, but an argument is a plain tensor of shape "
                    f"{list(tensor.shape)}. Distribute it with distribute_tensor or from_local, or say by "
                    "weft.replicate_plain() that it is the same on every rank."
                )
    return found


def _teach(name, function, draws):
    @functools.wraps(function)
    def on_both(*args, **kwargs):
        # A tracer does not know the functions of C++, and has no distributed tensors.
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        distributed = _distributed(name, args, kwargs)
        if distributed is None:
            return function(*args, **kwargs)
        outer = _C.exchange_parallel_forward(True)
        try:
            if not draws:
                return function(*args, **kwargs)
            with _DrawingFromWeft(_C.device_mesh(distributed)):
                return function(*args, **kwargs)
        finally:
            _C.exchange_parallel_forward(outer)

    on_both._of_torch = function
    return on_both


def _tell_of_vmap(vmap):
    plain_begin, plain_end = vmap._vmap_increment_nesting, vmap._vmap_decrement_nesting

    @functools.wraps(plain_begin)
    def begin(*args):
        _C.enter_vmap()
        return plain_begin(*args)

    @functools.wraps(plain_end)
    def end():
        _C.leave_vmap()
        return plain_end()

    vmap._vmap_increment_nesting, vmap._vmap_decrement_nesting = begin, end


def install():
    _imports.when_imported("torch._functorch.vmap", _tell_of_vmap)
    for table, draws in ((_FUNCTIONS, False), (_DRAWING_FUNCTIONS, True)):
        for owners, names in table.items():
            owners = [functools.reduce(getattr, owner.split(".")[1:], torch) for owner in owners]
            for name in names:
                function = getattr(owners[0], name, None)  # not every version of torch has all of them
                if function is not None and not hasattr(function, "_of_torch"):
                    taught = _teach(f"{owners[-1].__name__}.{name}", function, draws)
                    for owner in owners:
                        setattr(owner, name, taught)
