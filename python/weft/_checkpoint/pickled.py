"""torch.save and pickle of a distributed tensor: this rank's local tensor with its spec, which the same rank of an equal world
reads back. Each rank saves a file of its own. torch.distributed.checkpoint saves for any number of ranks."""

import torch

from weft import _C, _groups
from weft._convert import check_shard_orders
from weft._imports import when_imported


def reduced(tensor):
    """What pickle keeps of a distributed tensor."""
    spec = _C.spec(tensor)
    check_shard_orders("pickle", spec)
    rank = _groups.current_world().rank
    return restored, (_C.local_tensor(tensor), str(spec), spec.stride, rank, tensor.requires_grad)


def restored(local, text, stride, rank, requires_grad):
    """The distributed tensor whose local tensor a rank has saved."""
    spec = _C.TensorSpec.parse(text)
    world = _groups.current_world()
    ranks = spec.mesh.mesh.flatten().tolist()
    if world.rank != rank or max(ranks) >= world.size:
        raise RuntimeError(
            f"[pickle] rank {rank} of at least {max(ranks) + 1} is required, which saved its local tensor of {spec}, but this is "
            f"rank {world.rank} of {world.size}. Let each rank load the file that it has saved, after init_process_group or under "
            "torchrun; torch.distributed.checkpoint loads on any number of ranks, and full_tensor() is saved as a plain tensor."
        )
    mesh = world.mesh(spec.mesh.device_type, list(spec.mesh.shape), ranks, list(spec.mesh.mesh_dim_names))
    made = _C.from_local(local, mesh, spec.placements, shape=spec.shape, stride=stride)
    return made.requires_grad_(requires_grad)


def _teach_forking_pickler(module):
    """Tensors that are sent to another process, as dcp.async_save does: the local tensor goes by shared memory."""
    reduce_of_torch = module.reduce_tensor

    def reduce_tensor(tensor):
        return reduced(tensor) if _C.is_dtensor(tensor) else reduce_of_torch(tensor)

    for kind in (torch.Tensor, torch.nn.Parameter):
        module.reduction.register(kind, reduce_tensor)


def install():
    when_imported("torch.multiprocessing.reductions", _teach_forking_pickler)
    torch.serialization.add_safe_globals([restored])
