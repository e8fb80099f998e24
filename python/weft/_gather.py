"""Global tensors for code that needs all elements of a tensor on every rank."""

from weft import _C


def global_value(value):
    """The global tensor of a distributed tensor; any other value as it is."""
    return _C.full_tensor(value) if _C.is_dtensor(value) else value


def detached_global_value(value):
    return _C.full_tensor(value.detach()) if _C.is_dtensor(value) else value


def on_replicated(function, tensor):
    """Calls the function with a distributed tensor, replicated, and gives its result the tensor's layout."""
    spec = _C.spec(tensor)
    result = function(_C.redistribute(tensor, placements=[_C.Replicate()] * spec.mesh.ndim))
    return _C.redistribute(result, placements=spec.layout)
