"""Programs written for torch.distributed.tensor, on two processes: once on PyTorch's DTensor and once on Weft."""

import importlib.machinery
import pickle
import sys
import types

import pytest
import torch
import torch.distributed as dist
import torch.distributed.tensor.debug
import torch.distributed.tensor.parallel as tensor_parallel
import weft
from torch import nn
from torch.distributed import tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard, experimental


@pytest.fixture
def both():
    """Runs a program on PyTorch's DTensor, then on Weft, and expects equal results."""

    def expect(program):
        want = program()
        assert not weft.is_dtensor(want)
        weft.install()
        try:
            got = program()
        finally:
            weft.uninstall()
        torch.testing.assert_close(got, want)

    return expect


def _values(tensors):
    return [each.full_tensor() if isinstance(each, tensor.DTensor) else each for each in tensors]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x, *, scale=None):
        out = self.down(torch.relu(self.up(self.norm(x))))
        return out if scale is None else out * scale


def _trained(model, *inputs, **keywords):
    out = model(*inputs, **keywords)
    (out.full_tensor() if isinstance(out, tensor.DTensor) else out).square().sum().backward()
    return _values([out] + [p.grad for p in model.parameters()])


def test_styles_of_pytorch_make_a_model_parallel(both):
    def program():
        torch.manual_seed(0)
        model, mesh = Block(), init_device_mesh("cpu", (2,))
        plan = {
            "norm": tensor_parallel.SequenceParallel(),
            "up": tensor_parallel.ColwiseParallel(input_layouts=Shard(1)),
            "down": tensor_parallel.RowwiseParallel(output_layouts=Shard(1)),
        }
        tensor_parallel.parallelize_module(model, mesh, plan)
        assert isinstance(model.up.weight, tensor.DTensor) and model.up.weight.placements == (Shard(0),)
        x = torch.randn(2, 4, 8)
        return _trained(model, x.chunk(2, 1)[dist.get_rank()])

    both(program)


def test_parts_of_a_model_are_made_parallel_one_after_another(both):
    def program():
        torch.manual_seed(0)
        model, mesh = nn.Sequential(nn.Linear(4, 8), Block(), nn.Linear(8, 4)), init_device_mesh("cpu", (2,))
        plan = {"up": tensor_parallel.ColwiseParallel(), "down": tensor_parallel.RowwiseParallel()}
        tensor_parallel.parallelize_module(model[1], mesh, plan)
        tensor_parallel.parallelize_module(model, mesh, {"2": tensor_parallel.ColwiseParallel(output_layouts=Replicate())})
        # What no plan names stays plain.
        assert not isinstance(model[0].weight, tensor.DTensor) and not isinstance(model[1].norm.weight, tensor.DTensor)
        return _trained(model, torch.randn(3, 4))

    both(program)


def test_keyword_layouts_are_honoured(both):
    def program():
        torch.manual_seed(0)
        model, mesh = Block(), init_device_mesh("cpu", (2,))
        plan = {
            "": tensor_parallel.PrepareModuleInputOutput(
                input_layouts=Shard(0),
                desired_input_layouts=Replicate(),
                input_kwarg_layouts={"scale": Shard(0)},
                desired_input_kwarg_layouts={"scale": Replicate()},
                use_local_input=True,
                output_layouts=Replicate(),
                desired_output_layouts=Shard(0),
            )
        }
        tensor_parallel.parallelize_module(model, mesh, plan)
        x, scale = torch.randn(4, 8), torch.randn(4, 1)
        rank = dist.get_rank()
        return _trained(model, x.chunk(2)[rank], scale=scale.chunk(2)[rank])

    both(program)


class HalfColwise(tensor_parallel.ColwiseParallel):
    """A style of the user's, which changes one step of PyTorch's."""

    @staticmethod
    def _prepare_input_fn(input_layouts, desired_input_layouts, mod, inputs, device_mesh):
        half = (inputs[0] / 2, *inputs[1:])
        return tensor_parallel.ColwiseParallel._prepare_input_fn(
            input_layouts, desired_input_layouts, mod, half, device_mesh
        )


class ShardRows(tensor_parallel.ParallelStyle):
    def _apply(self, module, device_mesh):
        def shard(name, of, mesh):
            for key, parameter in list(of.named_parameters(recurse=False)):
                setattr(of, key, nn.Parameter(tensor.distribute_tensor(parameter, mesh, [Shard(0)])))

        return tensor.distribute_module(
            module,
            device_mesh,
            shard,
            lambda of, inputs, mesh: tensor.DTensor.from_local(inputs[0], mesh, [Replicate()]),
            lambda of, output, mesh: output.redistribute(mesh, [Replicate()]).to_local(),
        )


def test_styles_of_the_user_are_applied(both):
    def program():
        torch.manual_seed(0)
        model, mesh = Block(), init_device_mesh("cpu", (2,))
        plan = {"up": HalfColwise(), "down": tensor_parallel.RowwiseParallel(), "norm": ShardRows()}
        tensor_parallel.parallelize_module(model, mesh, plan)
        return _trained(model, torch.randn(3, 8))

    both(program)


def test_gradients_cross_the_boundary_as_in_pytorch(both):
    def program():
        torch.manual_seed(0)
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        x = torch.randn(4, 6, requires_grad=True)
        t = tensor.DTensor.from_local(x, mesh, [Partial()], run_check=False)
        y = t.redistribute(mesh, [Shard(0)]) * 2
        assert y.device_mesh is mesh and y._spec.num_shards == 2 and y._local_tensor.shape == (2, 6)
        y.to_local().sum().backward()
        return [x.grad, y.full_tensor(), tensor.ones(4, 2, device_mesh=mesh, placements=[Shard(0)]).to_local()]

    both(program)


def test_with_mesh_holds_for_functions_without_one(both):
    def program():
        with init_device_mesh("cpu", (2,)):
            return tensor.distribute_tensor(torch.arange(4.0), placements=[Shard(0)]).to_local()

    both(program)


def test_local_map_runs_a_function_on_local_tensors(both):
    def program():
        torch.manual_seed(0)
        mesh = init_device_mesh("cpu", (2,))
        rows = tensor.distribute_tensor(torch.randn(4, 6), mesh, [Shard(1)]).requires_grad_()
        columns = tensor.distribute_tensor(torch.randn(6, 3), mesh, [Shard(0)])
        product = experimental.local_map(
            torch.mm, out_placements=[Partial()], in_placements=([Shard(1)], [Shard(0)]), device_mesh=mesh
        )(rows, columns)
        assert isinstance(product, tensor.DTensor) and product.placements == (Partial(),)
        total = product.redistribute(mesh, [Replicate()]).square().sum()
        total.backward()
        return _values([product, rows.grad])

    both(program)


@torch.library.custom_op("weft_test_install::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled.register_fake
def _(x):
    return torch.empty_like(x)


def test_register_sharding_is_for_operators_of_the_program(both):
    op = torch.ops.weft_test_install.doubled.default

    def program():
        @experimental.register_sharding(op)
        def strategies(x):
            return [([Replicate()], [Replicate()])] + [([Shard(dim)], [Shard(dim)]) for dim in range(x.ndim)]

        mesh = init_device_mesh("cpu", (2,))
        result = op(tensor.distribute_tensor(torch.arange(12.0).view(4, 3), mesh, [Shard(0)]))
        assert result.placements == (Shard(0),)
        return result.full_tensor()

    try:
        both(program)
    finally:
        weft.unregister_sharding(op)


def test_an_explicit_redistribution_context_refuses_hidden_ones(both):
    def program():
        mesh = init_device_mesh("cpu", (2,))
        rows = tensor.distribute_tensor(torch.arange(4.0).view(2, 2), mesh, [Shard(0)])
        explicit_context = torch.distributed.tensor._utils.ExplicitRedistributionContext
        with explicit_context():
            with pytest.raises(RuntimeError) as refused:
                rows @ rows
            same = rows + rows
            with explicit_context(enable=False):
                product = rows @ rows
        assert "redistribut" in str(refused.value).lower()
        return [same.full_tensor(), product.full_tensor()]

    both(program)


def test_plain_tensors_are_replicated_in_implicit_replication(both):
    def program():
        mesh = init_device_mesh("cpu", (2,))
        rows = tensor.distribute_tensor(torch.arange(6.0).view(2, 3), mesh, [Shard(0)])
        with experimental.implicit_replication():
            result = rows + torch.ones(2, 3)
        assert result.placements == (Shard(0),)
        return result.full_tensor()

    both(program)


def test_the_first_rank_alone_draws_a_sharding(both, capsys, monkeypatch):
    # PyTorch prints by a package that may be missing.
    table = types.ModuleType("tabulate")
    table.tabulate = lambda rows, **options: str(rows)
    table.__spec__ = importlib.machinery.ModuleSpec("tabulate", None)
    monkeypatch.setitem(sys.modules, "tabulate", table)

    def program():
        mesh = init_device_mesh("cpu", (2,))
        capsys.readouterr()
        for placement in (Shard(0), Replicate()):
            torch.distributed.tensor.debug.visualize_sharding(tensor.ones(4, 2, device_mesh=mesh, placements=[placement]))
        return bool(capsys.readouterr().out) == (dist.get_rank() == 0)

    both(program)
    assert program()


def test_context_parallel_is_pytorchs_and_refuses_distributed_buffers(both):
    torch.manual_seed(0)
    values = [torch.randn(1, 2, 8, 4) for _ in range(3)]

    def attention(mesh, buffers):
        with experimental.context_parallel(mesh, buffers=buffers, buffer_seq_dims=[2, 2, 2]):
            return torch.nn.functional.scaled_dot_product_attention(*buffers, is_causal=True)

    def program():
        # PyTorch has it for the kernels of GPUs alone.
        with pytest.raises(NotImplementedError, match="aten._scaled_dot_product_flash_attention_for_cpu"):
            attention(init_device_mesh("cpu", (2,)), [value.clone() for value in values])
        return True

    both(program)
    mesh = weft.init_device_mesh("cpu", (2,))
    sharded = [weft.distribute_tensor(value, mesh, [Shard(2)]) for value in values]
    weft.install()
    try:
        with pytest.raises(NotImplementedError, match=r"\[context_parallel\] plain buffers are required, but got f32\[1,2,8,4\]"):
            attention(mesh, sharded)
    finally:
        weft.uninstall()
    result = torch.nn.functional.scaled_dot_product_attention(*sharded, is_causal=True)
    want = torch.nn.functional.scaled_dot_product_attention(*values, is_causal=True)
    torch.testing.assert_close(result.full_tensor(), want)


def test_meshes_stay_pytorchs():
    weft.install()
    try:
        mesh = init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp"))
        assert type(mesh) is DeviceMesh and tensor.init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp")) == mesh
        flat = mesh._flatten("all", backend_override="gloo")
        t = tensor.distribute_tensor(torch.arange(4.0), flat, [Shard(0)])
        assert t.device_mesh is flat and t.sum().full_tensor() == 6
        assert tensor.distribute_tensor(torch.ones(4), mesh["dp"], [Shard(0)]).device_mesh == mesh["dp"]
    finally:
        weft.uninstall()


def test_wefts_meshes_are_sliced_as_pytorchs():
    mesh = weft.init_device_mesh("cpu", (2, 1), mesh_dim_names=("dp", "tp"))
    flat = mesh._flatten("all", backend_override="gloo")
    assert mesh["all"] == flat and dist.get_process_group_ranks(flat.get_group()) == [0, 1]
    split = flat._unflatten("all", (1, 2), ("a", "b"))
    assert split.shape == (1, 2) and [group.size() for group in split.get_all_groups()] == [1, 2]
    joined = weft.DeviceMesh._concatenate([mesh["dp"], mesh["tp"]])
    assert joined.shape == (2, 1) and joined.mesh_dim_names == ("dp", "tp")
    again = pickle.loads(pickle.dumps(mesh))
    assert again == mesh and again.get_group("dp").size() == 2
    for made in (flat, split["b"], joined["dp"], again["dp"]):
        t = weft.distribute_tensor(torch.arange(4.0), made, [weft.Shard(0)])
        assert t.sum().full_tensor() == 6
