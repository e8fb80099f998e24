"""The protocol of torch.distributed.checkpoint."""

import torch

from weft import _C


def _checked_spec(tensor):
    spec = _C.spec(tensor)
    for placement in spec.placements:
        if placement.is_partial() or isinstance(placement, _C.StridedShard):
            raise ValueError(
                f"[checkpoint] a tensor that lies in whole, single blocks is required, but got {spec}. Redistribute it first."
            )
    return spec


def create_write_items(tensor, fqn, object):
    """What this rank writes of the tensor."""
    from torch.distributed.checkpoint.metadata import MetadataIndex, TensorProperties
    from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

    (chunk,) = create_chunk_list(tensor)
    return [
        WriteItem(
            index=MetadataIndex(fqn, chunk.offsets),
            type=WriteItemType.SHARD,
            tensor_data=TensorWriteData(
                chunk=chunk,
                properties=TensorProperties.create_from_tensor(_C.to_local(tensor.detach())),
                size=tensor.size(),
            ),
        )
    ]


def create_chunk_list(tensor):
    """Where in the whole tensor this rank's part lies."""
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata

    shape, offset = _checked_spec(tensor).local_shape_and_offset()
    return [ChunkStorageMetadata(offsets=torch.Size(offset), sizes=torch.Size(shape))]


def get_tensor_shard(tensor, index):
    """This rank's part, to be read from or written to."""
    _checked_spec(tensor)
    return _C.to_local(tensor.detach())
