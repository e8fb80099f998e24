"""PyTorch's side of the benchmark 'local': DTensor.redistribute on rank 3 of a fake 2x2 mesh, where nothing is sent.

Cases read `{R, R}->{S(0), R}`. To a partial value it is PyTorch's internal function: DTensor.redistribute refuses.
"""

import sys

import torch
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._redistribute import redistribute_local_tensor

from fake_mesh import fake_mesh, parse_case
from serve import serve

SIZES = (16, 16)


def make_call(case, mesh):
    source, target = parse_case(case)
    local = torch.ones([size // 2 if Shard(dim) in source else size for dim, size in enumerate(SIZES)])
    tensor = DTensor.from_local(local, mesh, source, run_check=False)
    if any(placement.is_partial() for placement in target):
        target_spec = DTensorSpec(mesh, target, tensor_meta=tensor._spec.tensor_meta)
        return lambda: redistribute_local_tensor(local, tensor._spec, target_spec)
    return lambda: tensor.redistribute(mesh, target)


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    torch.set_num_threads(1)
    mesh = fake_mesh((2, 2), rank=3)
    serve(lambda name, _: make_call(name, mesh), barrier=lambda: None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
