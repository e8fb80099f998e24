"""One rank of PyTorch's side of the benchmark 'overlap', started by bench/run.py.

Cases: '<shape> gather|scatter <way>' as overlap_main has them, where the way is 'unfused', by functional collectives, or
'chunks', a loop over four chunks in plain Python: the next ones are under way while one is multiplied.
"""

import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional

from serve import serve_as_rank

CHUNKS = 4
SIDE = 1024


def gather_unfused(shard, other):
    return functional.all_gather_tensor(shard, 0, dist.group.WORLD) @ other


def gather_in_chunks(shard, other):
    """Two ranks: each sends its chunks to the other, and computes its own rows while those of the other arrive."""
    rank = dist.get_rank()
    rows = shard.shape[0]
    full = torch.empty(2 * rows, other.shape[1])
    received = torch.empty_like(shard)
    receives = [dist.irecv(chunk, 1 - rank) for chunk in received.chunk(CHUNKS)]
    sends = [dist.isend(chunk, 1 - rank) for chunk in shard.chunk(CHUNKS)]
    torch.mm(shard, other, out=full[rank * rows : (rank + 1) * rows])
    targets = full[(1 - rank) * rows : (2 - rank) * rows].chunk(CHUNKS)
    for work, chunk, target in zip(receives, received.chunk(CHUNKS), targets):
        work.wait()
        torch.mm(chunk, other, out=target)
    for work in sends:
        work.wait()
    return full


def scatter_unfused(matrix, other):
    return functional.reduce_scatter_tensor(matrix @ other, "sum", 0, dist.group.WORLD)


def scatter_in_chunks(matrix, other):
    rank = dist.get_rank()
    own, others = matrix.chunk(2)[rank], matrix.chunk(2)[1 - rank]
    received = torch.empty(own.shape[0], other.shape[1])
    receives = [dist.irecv(chunk, 1 - rank) for chunk in received.chunk(CHUNKS)]
    sends = []
    for chunk in others.chunk(CHUNKS):
        product = chunk @ other
        sends.append((dist.isend(product, 1 - rank), product))
    output = own @ other
    for work, chunk, target in zip(receives, received.chunk(CHUNKS), output.chunk(CHUNKS)):
        work.wait()
        target += chunk
    for work, _ in sends:
        work.wait()
    return output


CALLS = {
    ("gather", "unfused"): gather_unfused,
    ("gather", "chunks"): gather_in_chunks,
    ("scatter", "unfused"): scatter_unfused,
    ("scatter", "chunks"): scatter_in_chunks,
}


def make_call(case, size):
    shape, kind, way = case.split()
    side = size if shape == "square" else SIDE
    rows = size // dist.get_world_size() if kind == "gather" else size
    left, right = torch.rand(rows, side), torch.rand(side, side)
    call = CALLS[kind, way]

    def run():
        with torch.no_grad():
            result = call(left, right)
            # A functional collective is under way until its result is used.
            return result.wait() if isinstance(result, functional.AsyncCollectiveTensor) else result

    return run


if __name__ == "__main__":
    sys.exit(serve_as_rank(__doc__, lambda: make_call))
