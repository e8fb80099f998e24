"""Clipping by torch.nn.utils of gradients on several meshes, some of them plain perhaps.

The norm of all gradients is a number on one mesh, which torch's code would multiply with gradients on another. Every mesh gets its
value instead.
"""

import functools

import torch
from torch.nn import utils as _utils
from torch.nn.utils import clip_grad as _clip_grad

from weft import _C
from weft._gather import global_value


def _by_mesh(tensors):
    """The tensors of each mesh, and plain ones as those of None."""
    groups = {}
    for tensor in tensors:
        mesh = _C.device_mesh(tensor) if _C.is_dtensor(tensor) else None
        groups.setdefault(mesh, []).append(tensor)
    return groups


def _total_norm(of_torch):
    @functools.wraps(of_torch)
    def total_norm(tensors, norm_type=2.0, error_if_nonfinite=False, foreach=None):
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        groups = _by_mesh(tensors)
        meshes = [mesh for mesh in groups if mesh is not None]
        if len(meshes) < 2:
            return of_torch(tensors, norm_type, error_if_nonfinite, foreach)
        norms = [global_value(of_torch(group, norm_type, False, foreach)) for group in groups.values()]
        total = of_torch([norm.to(tensors[0].device) for norm in norms], norm_type, error_if_nonfinite, False)
        return _C.from_local(total, meshes[0])

    return total_norm


def _clip_with_norm(of_torch):
    @functools.wraps(of_torch)
    def clip(parameters, max_norm, total_norm, foreach=None):
        parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        groups = _by_mesh(parameter.grad for parameter in parameters if parameter.grad is not None)
        is_of_each = not _C.is_dtensor(total_norm) or groups.keys() <= {None, _C.device_mesh(total_norm)}
        of_torch(parameters, max_norm, total_norm if is_of_each else global_value(total_norm), foreach)

    return clip


def install():
    if hasattr(_clip_grad._get_total_norm, "_of_weft"):
        return
    norm, clip = _total_norm(_clip_grad._get_total_norm), _clip_with_norm(_clip_grad._clip_grads_with_norm_)
    norm._of_weft = True
    _clip_grad._get_total_norm = _utils.get_total_norm = norm
    _clip_grad._clip_grads_with_norm_ = _utils.clip_grads_with_norm_ = clip
