"""torch.compile of distributed tensors in processes of their own: what must not depend on what a process has imported or compiled
before."""

import subprocess
import sys

import pytest

BEGIN = """
import weft
from weft import Replicate, Shard
mesh = weft.init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
"""


def run(program):
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "imported_before",
    ["torch._inductor.compile_fx", "torch._functorch.aot_autograd", "torch._functorch._aot_autograd.collect_metadata_analysis"],
)
def test_results_that_alias_arguments_do_not_depend_on_the_order_of_imports(imported_before):
    run(
        f"import torch, {imported_before}\n"
        + BEGIN
        + """
x = weft.distribute_tensor(torch.arange(12.0).view(4, 3), mesh, [Replicate()])
for function in (lambda x: x[1:], lambda x: x.to_local(), lambda x: weft.from_local(x.to_local(), mesh, [Shard(0)])):
    got, want = torch.compile(function, backend="aot_eager", fullgraph=True)(x), function(x)
    assert weft.is_dtensor(got) == weft.is_dtensor(want)
    assert torch.equal(weft.full_tensor(got) if weft.is_dtensor(got) else got, weft.full_tensor(want) if weft.is_dtensor(want) else want)
"""
    )


def test_modules_of_torch_that_have_imported_a_function_before_have_the_changed_one():
    run(
        """
import torch, sys
import torch.distributed._composable.checkpoint_activation, torch.export._draft_export, torch._inductor.compile_fx, torch._dynamo
def named(module):
    return {name: value for name, value in vars(sys.modules[module]).items() if callable(value)}
REPLACED = {
    "torch._functorch._aot_autograd.collect_metadata_analysis": "run_functionalized_fw_and_collect_metadata",
    "torch.export._trace": "_export",
    "torch.utils.checkpoint": "_checkpoint_without_reentrant_generator",
    "torch._lowrank": "svd_lowrank",
}
before = {module: getattr(sys.modules[module], name) for module, name in REPLACED.items()}
import weft
for module, name in REPLACED.items():
    assert getattr(sys.modules[module], name) is not before[module], name
    for other in list(sys.modules.values()):
        assert getattr(other, "__name__", "").partition(".")[0] != "torch" or vars(other).get(name) is not before[module], (other, name)
"""
    )


# Kernels of Weft that autograd calls, which a tracer of open sizes has to be told of before it traces the first of them.
WITH_GRADIENTS = {
    "einsum": 'torch.einsum("bi,ij->bj", x, w)',
    "attention": "F.scaled_dot_product_attention(*[x.view(x.shape[0], 1, 2, 4)] * 3)",
    "cross entropy": "F.cross_entropy(x, (x[:, 0] * 0).long())",
    "instance norm": "F.instance_norm(x.view(x.shape[0], 2, 4))",
}


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_the_first_function_of_open_sizes_in_a_process_may_be_any(name):
    run(
        f"""
import torch, weft
from torch.nn import functional as F
from torch.testing._internal.distributed.fake_pg import FakeStore
from weft import Replicate, Shard
torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
w = weft.distribute_tensor(torch.ones(8, 8), mesh, [Replicate()])
def function(x):
    return {WITH_GRADIENTS[name]}
compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
for rows in (4, 8, 12):
    x, y = (weft.from_local(torch.ones(rows // 2, 8), mesh, [Shard(0)]).requires_grad_() for _ in range(2))
    got, want = compiled(x), function(y)
    got.sum().backward()
    want.sum().backward()
    assert got.placements == want.placements and got.shape == want.shape and x.grad.placements == y.grad.placements
"""
    )
