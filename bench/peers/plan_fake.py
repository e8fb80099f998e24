"""PyTorch's side of the benchmark 'plan', on a fake process group of SIDE**3 ranks. Usage: plan_fake.py SIDE

Cases: `greedy {S(0), R, R}->{R, R, R}` by its default planner, `graph ...` by its graph search.
"""

import sys

import torch
from torch.distributed.tensor import _redistribute
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta

from fake_mesh import fake_mesh, parse_case
from serve import serve

SIZES = (4096, 4096, 64, 64)


def make_call(name, mesh):
    planner, case = name.split(" ", 1)
    strides = torch.empty(SIZES, device="meta").stride()
    meta = TensorMeta(torch.Size(SIZES), strides, torch.float32)
    source, target = (DTensorSpec(mesh, placements, tensor_meta=meta) for placements in parse_case(case))

    def call():
        # The planner of a mesh and a shape is kept; the plan is not.
        return _redistribute._gen_transform_infos_non_cached(source, target, planner == "graph")

    return call


def main():
    if len(sys.argv) != 2 or not sys.argv[1].isdigit():
        print(__doc__)
        return 0 if sys.argv[1:] in (["-h"], ["--help"]) else 2
    torch.set_num_threads(1)
    mesh = fake_mesh((int(sys.argv[1]),) * 3, rank=0)
    serve(lambda name, _: make_call(name, mesh), barrier=lambda: None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
