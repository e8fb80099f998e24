"""The protocol of torch.distributed.checkpoint: which blocks of a distributed tensor this rank writes and reads."""

import torch

from weft import _C


def _blocks(tensor):
    spec = _C.spec(tensor)
    if any(placement.is_partial() for placement in spec.placements):
        raise ValueError(
            f"[checkpoint] ranks must hold values and not terms of them, but got {spec}. Redistribute it first."
        )
    # Empty shards are left out, but a tensor without elements must be known to the checkpoint.
    return [block for block in spec.local_blocks() if 0 not in block[0] or 0 in spec.shape]


def _local(tensor):
    # One rank may ask while the others do not. An operator could communicate and hang, so none is called here.
    with torch.no_grad():
        return _C.to_local(tensor)


def create_chunk_list(tensor):
    """The global offsets and sizes of the blocks that this rank holds."""
    from torch.distributed.checkpoint.metadata import ChunkStorageMetadata

    return [ChunkStorageMetadata(offsets=offset, sizes=shape) for shape, offset, _ in _blocks(tensor)]


def create_write_items(tensor, fqn, object):
    """What this rank writes of the tensor."""
    from torch.distributed.checkpoint.metadata import MetadataIndex, TensorProperties
    from torch.distributed.checkpoint.planner import TensorWriteData, WriteItem, WriteItemType

    properties = TensorProperties.create_from_tensor(_local(tensor))
    properties.requires_grad = tensor.requires_grad
    return [
        WriteItem(
            index=MetadataIndex(fqn, chunk.offsets),
            type=WriteItemType.SHARD,
            tensor_data=TensorWriteData(chunk=chunk, properties=properties, size=tensor.size()),
        )
        for chunk in create_chunk_list(tensor)
    ]


def get_tensor_shard(tensor, index):
    """A block of the local tensor, to be read from or written to."""
    local = _local(tensor)
    for shape, offset, local_offset in _blocks(tensor):
        if index.offset is None or index.offset == offset:
            for dim, (begin, length) in enumerate(zip(local_offset, shape)):
                local = local.narrow(dim, begin, length)
            return local
    raise ValueError(
        f"[checkpoint] a block that this rank holds of {_C.spec(tensor)} is required, but got '{index.fqn}' at {index.offset}."
    )
