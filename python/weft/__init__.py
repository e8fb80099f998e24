"""SPMD distributed tensors: shard a tensor once, over a mesh of devices, and go on writing single-device code.

    mesh = weft.init_device_mesh("cpu", (4,), mesh_dim_names=("tp",))
    x = weft.distribute_tensor(torch.randn(8, 16), mesh, [weft.Shard(0)])
    y = torch.nn.functional.gelu(x @ w)       # an ordinary torch.Tensor
    y.full_tensor()

The names and signatures are those of torch.distributed.tensor.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

import torch

from weft._built_with import TORCH_VERSION as _TORCH_VERSION

if torch.__version__.split("+")[0] != _TORCH_VERSION:
    raise ImportError(
        f"[weft] built for torch {_TORCH_VERSION}, but torch is {torch.__version__}. Build weft again in this environment: "
        "pip install --force-reinstall --no-deps <its folder>."
    )

from weft._C import (
    __version__,
    DeviceMesh,
    Explanation,
    MeshRates,
    ParallelPlan,
    Partial,
    Placement,
    RaggedShard,
    Replicate,
    Shard,
    StridedShard,
    TensorSpec,
    all_gather_matmul,
    clip_grad_norm_,
    debug,
    device_mesh,
    distribute_tensor,
    empty,
    explain,
    from_local,
    full,
    full_tensor,
    gradient_bucket_bytes,
    is_dtensor,
    local_shape_and_offset,
    manual_seed,
    matmul_reduce_scatter,
    measure_rates,
    ones,
    overlap,
    placements,
    rand,
    randn,
    random_state,
    redistribute,
    run_on_ranks,
    set_gradient_bucket_bytes,
    set_random_state,
    spec,
    to_local,
    zeros,
)
from weft._checkpoint.load import load
from weft._checkpoint.load_pretrained import load_pretrained
from weft._checkpoint.save import AsyncSaver, latest_checkpoint, save
from weft._comm_debug import comm_debug
from weft._convert import from_torch, to_torch
from weft._dtensor import DTensor
from weft._fully_sharded.fully_shard import fully_shard
from weft._fully_sharded.module import FullyShardedModule
from weft._groups import init_device_mesh
from weft._install import install, uninstall
from weft._local import local, local_map
from weft._modules.batch import shard_batch
from weft._modules.distribute import distribute_module
from weft._modules.materialize import materialize
from weft._parallel.parallelize import parallelize_module
from weft._parallel.styles import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    ReplicateParallel,
    RowwiseParallel,
    SequenceParallel,
)
from weft._programs.micro_pipeline import micro_pipeline, micro_pipeline_tp_pass
from weft._programs.tensor_parallel import tensor_parallel, tensor_parallel_transformation
from weft._programs.transform_pass import TensorParallelTransformPass
from weft._redistribution import ExplicitRedistributionContext, implicit_replication
from weft._register_sharding import check_rule, register_sharding, unregister_sharding
from weft._scopes import loss_parallel, replicate_plain, strict
from weft._trace.export_parallel import save_exported
from weft._visualize import visualize_sharding

if TYPE_CHECKING:
    from torch.distributed.tensor.debug import CommDebugMode

# What changes torch itself.
for _name in (
    "weft._attributes",
    "weft._torch.clip_grad",
    "weft._comm_mode",
    "weft._trace.compile",
    "weft._torch.data_parallel",
    "weft._trace.export_parallel",
    "weft._torch.forward_mode",
    "weft._trace.make_fx",
    "weft._mesh",
    "weft._torch.muon",
    "weft._torch.pipelining",
    "weft._torch.recompute",
    "weft._checkpoint.pickled",
    "weft._torch.seed",
    "weft._checkpoint.state_dict",
    "weft._torch.functions",
    "weft._torch.parametrize",  # changes a function that weft._torch.functions has changed
    "weft._values",
    "weft._torch.wrappers",
    "weft._huggingface.accelerate",
    "weft._huggingface.trainer",
    "weft._huggingface.peft",
):
    _import_module(_name).install()


def __getattr__(name):
    # Imports much of torch.distributed, which takes longer than the import of weft.
    if name == "CommDebugMode":
        from torch.distributed.tensor.debug import CommDebugMode

        return CommDebugMode
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "AsyncSaver",
    "ColwiseParallel",
    "CommDebugMode",
    "DTensor",
    "DeviceMesh",
    "ExplicitRedistributionContext",
    "Explanation",
    "FullyShardedModule",
    "MeshRates",
    "ParallelPlan",
    "ParallelStyle",
    "Partial",
    "Placement",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RaggedShard",
    "Replicate",
    "ReplicateParallel",
    "RowwiseParallel",
    "SequenceParallel",
    "Shard",
    "StridedShard",
    "TensorParallelTransformPass",
    "TensorSpec",
    "all_gather_matmul",
    "check_rule",
    "clip_grad_norm_",
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
    "fully_shard",
    "gradient_bucket_bytes",
    "implicit_replication",
    "init_device_mesh",
    "install",
    "is_dtensor",
    "latest_checkpoint",
    "load",
    "load_pretrained",
    "local",
    "local_map",
    "local_shape_and_offset",
    "loss_parallel",
    "manual_seed",
    "materialize",
    "matmul_reduce_scatter",
    "measure_rates",
    "micro_pipeline",
    "micro_pipeline_tp_pass",
    "ones",
    "overlap",
    "parallelize_module",
    "placements",
    "rand",
    "randn",
    "random_state",
    "redistribute",
    "register_sharding",
    "replicate_plain",
    "run_on_ranks",
    "save",
    "save_exported",
    "set_gradient_bucket_bytes",
    "set_random_state",
    "shard_batch",
    "spec",
    "strict",
    "tensor_parallel",
    "tensor_parallel_transformation",
    "to_local",
    "to_torch",
    "uninstall",
    "unregister_sharding",
    "visualize_sharding",
    "zeros",
]
