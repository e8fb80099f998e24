"""Values in containers of containers, as torch's pytree finds them. A container that pytree cannot take apart counts as a value:
where transformers has registered its caches for torch.export, pytree raises for those of models that it does not export."""

import torch
import torch.utils._pytree as pytree


def is_value(value) -> bool:
    """Whether pytree finds nothing in it, or fails. For `is_leaf` of pytree's functions."""
    if type(value) in (tuple, list, dict):
        return False
    if isinstance(value, torch.Tensor):
        return True
    try:
        inside = pytree.tree_leaves(value, is_leaf=lambda each: each is not value)
    except Exception:  # of whoever registered the container
        return True
    return len(inside) == 1 and inside[0] is value


def leaves(values) -> list:
    return pytree.tree_leaves(values, is_leaf=is_value)


def mapped(function, values):
    return pytree.tree_map(function, values, is_leaf=is_value)
