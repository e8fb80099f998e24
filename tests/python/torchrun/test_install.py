"""Programs written for torch.distributed.tensor, on two processes: once on PyTorch's DTensor and once on Weft."""

import pickle

import pytest
import torch
import torch.distributed as dist
import torch.distributed.tensor.parallel as tensor_parallel
import weft
from torch import nn
from torch.distributed import tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Partial, Replicate, Shard


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
