"""weft.install(): the names of torch.distributed.tensor, and what placements, specs and meshes say to code that uses them."""

import copy
import os
import pickle
import subprocess
import sys

import pytest
import torch
import torch.distributed.device_mesh
import torch.distributed.tensor as of_torch
import torch.distributed._tensor.api
import torch.distributed.tensor.debug
import torch.distributed.tensor.experimental
import torch.distributed.tensor.parallel.input_reshard
import weft
from torch.distributed.tensor.placement_types import _StridedShard


@pytest.fixture
def installed():
    weft.install()
    yield
    weft.uninstall()


NAMES = {
    "torch.distributed.tensor": "DTensor distribute_module distribute_tensor empty full init_device_mesh ones rand randn zeros",
    "torch.distributed.tensor.parallel": "loss_parallel",
    "torch.distributed._tensor.api": "DTensor distribute_module distribute_tensor empty full ones rand randn zeros",
    "torch.distributed.tensor._api": "DTensor distribute_module distribute_tensor empty full ones rand randn zeros",
    "torch.distributed.tensor._utils": "ExplicitRedistributionContext",
    "torch.distributed.tensor.debug": "visualize_sharding",
    "torch.distributed.tensor.debug._visualize_sharding": "visualize_sharding",
    "torch.distributed.tensor.experimental": "implicit_replication local_map register_sharding",
    "torch.distributed.tensor.experimental._func_map": "local_map",
    "torch.distributed.tensor.experimental._register_sharding": "register_sharding",
    "torch.distributed.device_mesh": "init_device_mesh",
}


def _names():
    found = {(module, name): getattr(sys.modules[module], name) for module, of in NAMES.items() for name in of.split()}
    return found | {name: getattr(torch.Tensor, name) for name in ("placements", "device_mesh")}


def test_names_are_wefts_until_uninstalled():
    before = _names()
    modules = {name: dict(vars(sys.modules[name])) for name in NAMES}
    parallel = torch.distributed.tensor.parallel
    used_by_torch = [dict(vars(module)) for module in (parallel.style, parallel.input_reshard)]
    weft.install()
    weft.install()
    from torch.distributed.tensor import DTensor, distribute_tensor

    assert DTensor is weft.DTensor is of_torch.DTensor is torch.distributed.tensor.DTensor
    assert distribute_tensor is weft.distribute_tensor
    for (module, name), found in ((key, found) for key, found in _names().items() if isinstance(key, tuple)):
        assert name == "init_device_mesh" or found is getattr(weft, name), (module, name)
    weft.uninstall()
    weft.uninstall()
    assert _names() == before
    assert {name: dict(vars(sys.modules[name])) for name in NAMES} == modules
    assert [dict(vars(module)) for module in (parallel.style, parallel.input_reshard)] == used_by_torch
    assert all(type(sys.modules[name]) is type(sys) for name in NAMES)


def test_torchs_own_modules_keep_pytorchs_names(installed):
    import torch.distributed.tensor._api
    from torch.distributed.tensor._dtensor_spec import DTensorSpec  # noqa: F401
    from torch.distributed.tensor._op_schema import OpSchema  # noqa: F401

    of_pytorch = vars(torch.distributed.tensor._api)["DTensor"]
    assert of_pytorch is not weft.DTensor
    code = "from torch.distributed.tensor import DTensor"
    inside, outside = {"__name__": "torch.distributed.fsdp.later"}, {"__name__": "program"}
    exec(code, inside)
    exec(code, outside)
    assert inside["DTensor"] is of_pytorch and outside["DTensor"] is weft.DTensor


def test_a_name_may_be_replaced_while_installed(installed, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(of_torch, "distribute_tensor", 7)
        assert of_torch.distribute_tensor == 7
    assert of_torch.distribute_tensor is weft.distribute_tensor


PLACEMENTS = [
    (weft.Shard(0), of_torch.Shard(0)),
    (weft.Shard(-1), of_torch.Shard(-1)),
    (weft.Replicate(), of_torch.Replicate()),
    (weft.Partial(), of_torch.Partial()),
    (weft.Partial("max"), of_torch.Partial("max")),
    (weft.StridedShard(1, split_factor=2), _StridedShard(1, split_factor=2)),
]


def test_placements_equal_pytorchs():
    for i, (own, _) in enumerate(PLACEMENTS):
        for j, (_, other) in enumerate(PLACEMENTS):
            assert (own == other) == (i == j) and (own != other) == (i != j)
            assert (other == own) == (i == j) and (other != own) == (i != j)
            assert (own.is_shard(), own.is_shard(0), own.is_replicate(), own.is_partial(), own.is_partial("max")) == (
                PLACEMENTS[i][1].is_shard(),
                PLACEMENTS[i][1].is_shard(0),
                PLACEMENTS[i][1].is_replicate(),
                PLACEMENTS[i][1].is_partial(),
                PLACEMENTS[i][1].is_partial("max"),
            )
        assert hash(own) == hash(PLACEMENTS[i][1])
        assert {own: 1}[PLACEMENTS[i][1]] == 1 and {PLACEMENTS[i][1]: 1}[own] == 1
        assert pickle.loads(pickle.dumps(own)) == own == copy.copy(own) == copy.deepcopy(own)
    assert weft.Shard(0) != 0 and weft.Replicate() != "R" and weft.Shard(0) != of_torch.Replicate
    assert (weft.Shard(0), weft.Replicate()) == (of_torch.Shard(0), of_torch.Replicate())


def test_tensors_speak_of_themselves_as_pytorchs(installed):
    def program(rank):
        mesh = of_torch.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        t = of_torch.distribute_tensor(torch.arange(12.0).reshape(4, 3), mesh, [of_torch.Shard(0)])
        assert isinstance(t, of_torch.DTensor) and not isinstance(t.to_local(), of_torch.DTensor)
        assert isinstance(t.placements[0], of_torch.Shard) and t.placements == (of_torch.Shard(0),)
        assert t.device_mesh == mesh
        spec = t._spec
        assert spec.mesh == mesh == spec.device_mesh and spec.placements == (of_torch.Shard(0),)
        assert (spec.shape, spec.stride, spec.ndim, spec.tensor_meta.dtype) == (t.shape, t.stride(), 2, t.dtype)
        assert (spec.dim_map, spec.num_shards, spec.num_shards_map, spec.sums) == ([0, -1], 2, [2, 1], [])
        assert all(hasattr(t, name) for name in of_torch.DTensor.__slots__)
        local = t.requires_grad_()._local_tensor
        assert not local.requires_grad and local.shape == (2, 3)
        local.zero_()
        assert t.full_tensor().sum() == 0
        made = of_torch.DTensor(torch.ones(2, 3), spec, requires_grad=True)
        assert made.requires_grad and made.is_leaf and made.shape == (4, 3)
        assert not weft.DTensor(torch.ones(2, 3), weft.spec(t), requires_grad=False).requires_grad
        made.sum().backward()
        assert made.grad.placements == (of_torch.Shard(0),)

    weft.run_on_ranks(2, program)
    assert not hasattr(torch.ones(1), "_spec") and not hasattr(torch.ones(1), "_local_tensor")


def test_specs_say_shard_orders_apart_from_strided_shards(installed):
    def program(rank):
        mesh = of_torch.init_device_mesh("cpu", (2,))
        heads = of_torch.distribute_tensor(torch.arange(24.0).reshape(3, 4, 2), mesh, [of_torch.Shard(1)])
        flat = heads.flatten(0, 1)
        for each in (flat, flat.relu() + 1, flat.sum(1), flat @ of_torch.ones(2, 5, device_mesh=mesh)):
            spec = each._spec
            assert spec.placements == (_StridedShard(0, split_factor=3),)
            assert not spec.use_strided_shard_as_shard_order and spec.shard_order == ((0, (0,)),)

    weft.run_on_ranks(2, program)


def test_input_reshard_packs_distributed_activations(installed):
    from torch.distributed.tensor.parallel.input_reshard import _pack_hook_tp, _unpack_hook_tp

    x = torch.arange(24.0).reshape(3, 4, 2)

    def program(rank):
        mesh = of_torch.init_device_mesh("cpu", (2,))
        packed = _pack_hook_tp(mesh, 1, of_torch.distribute_tensor(x, mesh, [of_torch.Replicate()]))
        assert packed.placements == (of_torch.Shard(1),)
        for sharded in (packed, packed.flatten(0, 1)):
            unpacked = _unpack_hook_tp(mesh, 1, sharded)
            assert unpacked.placements == (of_torch.Replicate(),)
            torch.testing.assert_close(unpacked.to_local(), x.reshape(sharded.shape))

    weft.run_on_ranks(2, program)


def test_the_constructor_warns_of_gradients_that_go_nowhere():
    t = weft.ones(2, device_mesh=weft.init_device_mesh("cpu", (1,)))
    with pytest.warns(UserWarning, match=r"\[DTensor\] gradients do not reach a local tensor"):
        weft.DTensor(torch.ones(2, requires_grad=True), weft.spec(t), requires_grad=False)


def test_mesh_dims_have_any_name():
    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2, 1), mesh_dim_names=("mesh-0", "a b"))
        assert mesh["mesh-0"].size() == 2 and mesh.mesh_dim_names == ("mesh-0", "a b")
        t = weft.distribute_tensor(torch.arange(4.0), mesh, [weft.Shard(0), weft.Replicate()])
        assert weft.TensorSpec.parse(str(weft.spec(t))).mesh.mesh_dim_names == mesh.mesh_dim_names
        torch.testing.assert_close((t * 2).full_tensor(), torch.arange(4.0) * 2)

    weft.run_on_ranks(2, program)


PROGRAM = """
import sys
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
mesh = init_device_mesh("cpu", (1,))
t = distribute_tensor(torch.ones(2, 2), mesh, [Shard(0)])
assert isinstance(t, DTensor) and type(t) is torch.Tensor, type(t)
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4))
parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
assert type(model[0].weight.data) is torch.Tensor and model[0].weight.placements == (Shard(0),)
print("on weft:", __name__, sys.argv[2:], model(torch.ones(3, 4)).shape)
"""


def test_a_program_runs_unchanged(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    script = [sys.executable, "-m", "weft", str(tmp_path / "program.py"), str(tmp_path / "store"), "--steps", "3"]
    done = subprocess.run(script, capture_output=True, text=True)
    assert done.stdout == "on weft: __main__ ['--steps', '3'] torch.Size([3, 4])\n", done.stderr
    module = [sys.executable, "-m", "weft", "-m", "program", str(tmp_path / "store2")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, [tmp_path, *filter(None, sys.path)]))}
    done = subprocess.run(module, capture_output=True, text=True, env=environment)
    assert done.stdout == "on weft: __main__ [] torch.Size([3, 4])\n", done.stderr
    done = subprocess.run([sys.executable, "-m", "weft"], capture_output=True, text=True)
    assert done.returncode != 0 and "usage: python -m weft script.py" in done.stderr


def test_a_compiled_function_runs_under_the_switch(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        '''
import torch
import torch.distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.testing._internal.distributed.fake_pg import FakeStore

torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
x = DTensor.from_local(torch.ones(2, 4), init_device_mesh("cpu", (2,)), [Shard(0)])
y = torch.compile(lambda t: t * t + 2, backend="eager", fullgraph=True)(x)
assert isinstance(y, DTensor) and y.placements == (Shard(0),) and bool((y.to_local() == 3).all())
print("compiled")
'''
    )
    result = subprocess.run([sys.executable, "-m", "weft", program], capture_output=True, text=True, timeout=120)
    assert result.stdout == "compiled\n", result.stderr


def test_meshes_remember_flattened_dims():
    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "cp", "tp"))
        flat = mesh["dp", "cp"]._flatten("dp_cp")
        assert mesh["dp_cp"] == flat == mesh["dp", "cp"]._flatten("dp_cp") and flat.shape == (4,)
        assert flat.mesh.tolist() == mesh.mesh[:, :, rank % 2].flatten().tolist()
        assert mesh["dp_cp", "tp"].mesh.tolist() == mesh.mesh.reshape(4, 2).tolist()
        assert mesh["dp_cp", "tp"]._flatten("world").mesh.tolist() == list(range(8)) == mesh["world"].mesh.tolist()
        assert mesh["tp"]._flatten() == mesh["tp"] and mesh["tp"]._flatten("model") == mesh["model"]
        assert flat._get_root_mesh() == mesh == mesh._get_root_mesh()
        for name, over in (("tp", mesh["dp", "cp"]), ("dp_cp", mesh["cp", "tp"])):
            with pytest.raises(ValueError, match=r"\[DeviceMesh._flatten\] a new name is required, but got"):
                over._flatten(name)
        with pytest.raises(ValueError, match="a mesh dim of"):
            mesh["dp_tp"]
        with pytest.raises(ValueError, match="twice"):
            mesh["dp_cp", "dp"]
        with pytest.raises(ValueError, match="backend_override needs a mesh"):
            mesh._flatten("all", backend_override="gloo")
        t = weft.distribute_tensor(torch.arange(8.0), mesh["dp_cp"], [weft.Shard(0)])
        torch.testing.assert_close(t.full_tensor(), torch.arange(8.0))

    weft.run_on_ranks(8, program)


def test_meshes_are_split_and_joined():
    def program(rank):
        world = weft.init_device_mesh("cpu", (8,), mesh_dim_names=("world",))
        mesh = world._unflatten(0, (2, 2, 2), ("dp", "cp", "tp"))
        assert mesh == weft.init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "cp", "tp"))
        assert mesh._unflatten("cp", (2, 1), ("a", "b")).shape == (2, 2, 1, 2)
        for dim, sizes, names in ((3, (2,), ("a",)), ("x", (2,), ("a",)), (0, (3,), ("a",)), (0, (2,), ("a", "b"))):
            with pytest.raises(ValueError, match=r"\[DeviceMesh._unflatten\]"):
                mesh._unflatten(dim, sizes, names)
        assert weft.DeviceMesh._concatenate([mesh["dp"], mesh["tp"]]) == mesh["dp", "tp"]
        mesh["dp", "cp"]._flatten("dp_cp")
        assert weft.DeviceMesh._concatenate([mesh["dp_cp"], mesh["tp"]]) == mesh["dp_cp", "tp"]
        with pytest.raises(ValueError, match="sliced from one mesh"):
            weft.DeviceMesh._concatenate([mesh["dp"], world])
        along = mesh._get_all_submeshes("cp")
        assert [each.mesh.tolist() for each in along] == [[0, 2], [1, 3], [4, 6], [5, 7]] and mesh["cp"] in along
        assert mesh._is_current_rank_part_of_mesh() == (mesh.get_coordinate() is not None)
        assert mesh.get_coordinate() == tuple(mesh.get_local_rank(name) for name in mesh.mesh_dim_names)
        assert (mesh.size(), mesh.size(0), mesh.size("tp"), mesh.size(-1)) == (8, 2, 2, 2)
        again = pickle.loads(pickle.dumps(mesh))
        assert again == mesh and copy.deepcopy(mesh) == mesh
        t = weft.distribute_tensor(torch.arange(8.0), again, [weft.Replicate(), weft.Replicate(), weft.Shard(0)])
        torch.testing.assert_close(t.full_tensor(), torch.arange(8.0))

    weft.run_on_ranks(8, program)
