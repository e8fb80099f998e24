"""SPMD distributed tensors: shard a tensor once, over a mesh of devices, and go on writing single-device code.

    mesh = weft.init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
    x = weft.distribute_tensor(torch.randn(8, 16), mesh, [weft.Shard(0)])
    y = torch.nn.functional.gelu(x @ w)       # an ordinary torch.Tensor
    y.full_tensor()

The names and signatures are those of torch.distributed.tensor.
"""

import torch

from weft._built_with import TORCH_VERSION as _TORCH_VERSION

if torch.__version__.split("+")[0] != _TORCH_VERSION:
    raise ImportError(
        f"[weft] built for torch {_TORCH_VERSION}, but torch is {torch.__version__}. Build weft again in this environment: "
        "pip install --force-reinstall --no-deps <its folder>."
    )

from weft import _attributes, _compile
from weft._C import (
    __version__,
    DeviceMesh,
    Explanation,
    Partial,
    Placement,
    Replicate,
    Shard,
    StridedShard,
    TensorSpec,
    debug,
    device_mesh,
    distribute_tensor,
    empty,
    explain,
    from_local,
    full,
    full_tensor,
    is_dtensor,
    local_shape_and_offset,
    manual_seed,
    ones,
    placements,
    rand,
    randn,
    random_state,
    redistribute,
    replicate_plain,
    run_on_ranks,
    set_random_state,
    spec,
    strict,
    to_local,
    zeros,
)
from weft._comm_debug import comm_debug
from weft._convert import from_torch, to_torch
from weft._dtensor import DTensor
from weft._groups import init_device_mesh
from weft._materialize import materialize
from weft._module import distribute_module
from weft._visualize import visualize_sharding

_attributes.install()
_compile.install()

__all__ = [
    "DTensor",
    "DeviceMesh",
    "Explanation",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "StridedShard",
    "TensorSpec",
    "comm_debug",
    "debug",
    "device_mesh",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "explain",
    "from_local",
    "from_torch",
    "full",
    "full_tensor",
    "init_device_mesh",
    "is_dtensor",
    "local_shape_and_offset",
    "manual_seed",
    "materialize",
    "ones",
    "placements",
    "rand",
    "randn",
    "random_state",
    "redistribute",
    "replicate_plain",
    "run_on_ranks",
    "set_random_state",
    "spec",
    "strict",
    "to_local",
    "to_torch",
    "visualize_sharding",
    "zeros",
]
