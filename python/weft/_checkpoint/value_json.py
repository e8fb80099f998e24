"""Values of a checkpoint as JSON, and back; value_json.h describes the form. The state of an object is such a value, in which
{"tensor": name} stands for the tensor of that name."""

import math
from collections.abc import Mapping

_TAGS = ({"float"}, {"int"}, {"tuple"}, {"dict"}, {"tensor"})


def encoded(value, name, of_leaf=None):
    """The form that JSON can have. `of_leaf(value)` is asked first, and returns None for what it leaves."""
    own = of_leaf and of_leaf(value, name)
    if own is not None:
        return own
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else {"int": str(value)}
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, (list, tuple)):
        elements = [encoded(each, joined(name, index), of_leaf) for index, each in enumerate(value)]
        return elements if isinstance(value, list) else {"tuple": elements}
    if isinstance(value, Mapping):
        pairs = [(encoded(key, name), encoded(each, joined(name, key), of_leaf)) for key, each in value.items()]
        is_plain = all(isinstance(key, str) for key in value) and set(value) not in _TAGS
        return dict(pairs) if is_plain else {"dict": [list(pair) for pair in pairs]}
    raise TypeError(
        f"[save] '{name}' must be a tensor, a number, a text, a boolean, None, an object with a state_dict, or a list, tuple or "
        f"dict of such values, but got {type(value).__name__}. Save what it is made of."
    )


def decoded(value, tensor_of=None):
    """What was encoded, with `tensor_of(name)` for tensors."""
    if isinstance(value, list):
        return [decoded(each, tensor_of) for each in value]
    if not isinstance(value, dict):
        return value
    if set(value) in _TAGS:
        ((tag, of),) = value.items()
        if tag == "tuple":
            return tuple(decoded(each, tensor_of) for each in of)
        if tag == "dict":
            return {_hashable(decoded(key)): decoded(each, tensor_of) for key, each in of}
        if tag == "tensor":
            return tensor_of(of)
        return float(of) if tag == "float" else int(of)
    return {key: decoded(each, tensor_of) for key, each in value.items()}


def _hashable(key):
    return tuple(key) if isinstance(key, list) else key


def joined(prefix, key):
    """The name of an entry of what is called prefix."""
    return f"{prefix}.{key}" if prefix else str(key)
