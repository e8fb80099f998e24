"""torch.distributed.pipelining between stages that are parallel inside: activations and gradients cross as local tensors, and are
distributed again on the mesh of the next stage.

    tp = mesh["tp"]
    stage = PipelineStage(weft.parallelize_module(block, tp, plan), index, count, device, group=mesh["pp"].get_group())
    ScheduleGPipe(stage, 4, loss_fn).step(x)   # x distributed on tp

torch's code does this for PyTorch's DTensor, which it knows by the name DTensor in three of its modules. Here that name stands for
both kinds of tensors. A stage finds its mesh by its parameters, where torch asks a function for it.
"""

import functools

import torch

from weft import _C
from weft._imports import when_imported
from weft._install import is_installed, original

_MODULES = ["_utils", "microbatch", "stage"]


class _EitherType(type):
    def __instancecheck__(cls, instance):
        return _C.is_dtensor(instance) or isinstance(instance, original("torch.distributed.tensor", "DTensor"))


class _Either(metaclass=_EitherType):
    @staticmethod
    def from_local(local_tensor, device_mesh=None, placements=None, **options):
        own = (_C.DeviceMesh, _C.Placement)
        is_own = is_installed() or any(isinstance(each, own) for each in (device_mesh, *(placements or ())))
        if not is_own:
            return original("torch.distributed.tensor", "DTensor").from_local(local_tensor, device_mesh, placements, **options)
        return _C.from_local(local_tensor, device_mesh, placements, **options)


def _mesh_key(mesh):
    """What the meshes of all stages have in common: names, sizes, and ranks up to an offset."""
    ranks = mesh.mesh.flatten().tolist()
    return tuple(mesh.mesh_dim_names or ()), (tuple(mesh.shape), *(rank - ranks[0] for rank in ranks))


def _teach_metadata(utils):
    of_torch = utils._DTensorMeta.from_dtensor
    update_of_torch = utils._MeshCache.update_from_tensors

    def from_dtensor(tensor):
        if not _C.is_dtensor(tensor):
            return of_torch(tensor)
        spec, local = _C.spec(tensor), _C.to_local(tensor.detach())
        names, layout = _mesh_key(spec.mesh)
        return utils._DTensorMeta(
            shape=local.shape,
            stride=local.stride(),
            dtype=tensor.dtype,
            requires_grad=tensor.requires_grad,
            global_shape=tensor.shape,
            global_stride=tensor.stride(),
            placements=spec.placements,
            mesh_dim_names=names,
            mesh_layout=layout,
        )

    def update_from_tensors(self, tensors):
        for tensor in tensors:
            if tensor is not None and _C.is_dtensor(tensor):
                self._cache.setdefault(_mesh_key(_C.device_mesh(tensor)), _C.device_mesh(tensor))
        update_of_torch(self, tuple(tensor for tensor in tensors if tensor is None or not _C.is_dtensor(tensor)))

    utils._DTensorMeta.from_dtensor = staticmethod(from_dtensor)
    utils._MeshCache.update_from_tensors = update_from_tensors


def _teach_stage(stage):
    init_of_torch = stage.PipelineStage.__init__

    @functools.wraps(init_of_torch)
    def __init__(self, submodule, *args, **kwargs):
        init_of_torch(self, submodule, *args, **kwargs)
        self._mesh_cache.update_from_tensors(tuple(t for t in submodule.parameters() if _C.is_dtensor(t)))

    stage.PipelineStage.__init__ = __init__


def _change(name, module):
    module.DTensor = _Either
    if name == "_utils":
        _teach_metadata(module)
    elif name == "stage":
        _teach_stage(module)


def install():
    if torch.distributed.is_available():
        for name in _MODULES:
            when_imported(f"torch.distributed.pipelining.{name}", functools.partial(_change, name))
