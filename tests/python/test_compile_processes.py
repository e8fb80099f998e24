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


@pytest.mark.parametrize("imported_before", ["sys", "torch._dynamo"])
def test_plain_tensors_are_replicated_in_compiled_modules_whatever_was_imported_first(imported_before):
    run(
        f"import torch, {imported_before}\n"
        + BEGIN
        + """
class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)
    def forward(self, x):
        return self.down(self.up(x) * torch.arange(8.0))

plan = {"up": weft.ColwiseParallel(use_local_output=False), "down": weft.RowwiseParallel(input_layouts=Shard(-1))}
model, x = weft.parallelize_module(Scaled(), mesh, plan), torch.ones(2, 4)
def changed(x):
    model.calls = 1
    return model(x)

for function in (model, lambda x: model(x), changed):
    torch.testing.assert_close(torch.compile(function, backend="aot_eager", fullgraph=True)(x), model(x), rtol=0, atol=0)
with torch._dynamo.config.patch(skip_nnmodule_hook_guards=False):
    torch.testing.assert_close(torch.compile(lambda x: model(x) + 1, backend="aot_eager", fullgraph=True)(x), model(x) + 1, rtol=0, atol=0)
"""
    )


def test_a_hook_that_a_parallel_module_is_given_later_runs_in_compiled_code():
    run(
        "import torch\n"
        + BEGIN
        + """
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 4))
weft.parallelize_module(model, mesh, {"0": weft.ColwiseParallel(), "1": weft.RowwiseParallel()})
compiled, x = torch.compile(lambda x: model(x), backend="aot_eager"), torch.ones(2, 4)
before = compiled(x)
removed = [
    model[1].register_forward_hook(lambda module, inputs, output: output * 3),
    model[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] * 2,)),
]
assert torch.equal(compiled(x), model(x)) and not torch.equal(compiled(x), before)
for each in removed:
    each.remove()
assert torch.equal(compiled(x), before)
model[1].forward = lambda x: x
assert compiled(x).shape == model(x).shape != before.shape
"""
    )


def test_what_the_forward_of_a_parallel_module_closes_over_is_guarded():
    run(
        "import torch\n"
        + BEGIN
        + """
def made():
    scale = 2.0
    class Scaled(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) * scale
    def change():
        nonlocal scale
        scale = 3.0
    return Scaled(4, 8), change

linear, change = made()
model = weft.parallelize_module(torch.nn.Sequential(linear), mesh, {"0": weft.ColwiseParallel()})
compiled, x = torch.compile(lambda x: model(x), backend="aot_eager", fullgraph=True), torch.ones(2, 4)
assert torch.equal(compiled(x), model(x))
change()
assert torch.equal(compiled(x), model(x))
"""
    )
