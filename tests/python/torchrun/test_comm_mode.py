"""CommDebugMode on Weft's tensors counts what it counts on PyTorch's."""

import json

import pytest
import torch
import weft
from torch import nn
from torch.distributed.device_mesh import init_device_mesh as torch_init_device_mesh
from torch.distributed.tensor import DTensor as TorchDTensor
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor import distribute_tensor as torch_distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel
from torch.distributed.tensor.parallel import parallelize_module as torch_parallelize_module

functional = torch.ops.c10d_functional


class Both:
    """The same API twice: Weft's, then PyTorch's."""

    def __init__(self):
        weft_mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        torch_mesh = torch_init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        self.each = (
            (weft_mesh, weft.distribute_tensor, weft.from_local),
            (torch_mesh, torch_distribute_tensor, TorchDTensor.from_local),
        )

    def counts(self, program):
        found = []
        for mesh, distribute, from_local in self.each:
            operation = program(mesh, distribute, from_local)
            with CommDebugMode() as mode:
                operation()
            assert mode.get_total_counts() == sum(mode.get_comm_counts().values())
            found.append({name: count for name, count in mode.get_comm_counts().items() if count})
        return found


@pytest.mark.parametrize(
    "source, target, operator",
    [
        (Shard(0), Replicate(), functional.all_gather_into_tensor),
        (Partial(), Replicate(), functional.all_reduce),
        (Partial(), Shard(0), functional.reduce_scatter_tensor),
        (Replicate(), Shard(1), None),
    ],
)
def test_a_redistribution_counts_as_with_pytorchs_dtensor(source, target, operator):
    def program(mesh, distribute, from_local):
        x = from_local(torch.ones(4, 4), mesh, [source])
        return lambda: x.redistribute(mesh, [target])

    ours, theirs = Both().counts(program)
    assert ours == theirs == ({operator: 1} if operator else {})


def test_operators_and_their_backward_count_as_with_pytorchs_dtensor():
    def program(mesh, distribute, from_local):
        x = distribute(torch.ones(4, 8), mesh, [Shard(0)]).requires_grad_()
        w = distribute(torch.ones(8, 4), mesh, [Replicate()])
        return lambda: (x @ w).full_tensor().sum().backward()

    ours, theirs = Both().counts(program)
    assert ours == theirs == {functional.all_gather_into_tensor: 1}


def test_an_all_to_all_is_one_where_pytorch_gathers_on_cpu():
    def program(mesh, distribute, from_local):
        x = from_local(torch.ones(4, 4), mesh, [Shard(0)])
        return lambda: x.redistribute(mesh, [Shard(1)])

    ours, theirs = Both().counts(program)
    assert ours == {torch.ops._dtensor.shard_dim_alltoall: 1}
    assert theirs == {functional.all_gather_into_tensor: 1}


def test_distributing_a_tensor_counts_as_with_pytorchs_dtensor():
    for placement in (Shard(0), Replicate()):
        ours, theirs = Both().counts(
            lambda mesh, distribute, from_local: lambda: distribute(torch.ones(4, 4), mesh, [placement])
        )
        assert ours == theirs and sum(ours.values()) == 1


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1 = nn.Linear(8, 16)
        self.net2 = nn.Linear(16, 8)

    def forward(self, x):
        return self.net2(torch.relu(self.net1(x)))


def mode_of_step(parallelize, mesh, colwise, rowwise):
    model = parallelize(MLP(), mesh, {"net1": colwise, "net2": rowwise})
    with CommDebugMode() as mode:
        model(torch.ones(4, 8)).sum().backward()
    return mode


def counted(counts):
    return {module: {way: dict(each) for way, each in ways.items() if each} for module, ways in counts.items()}


def test_modules_and_passes_count_as_with_pytorchs_dtensor(tmp_path):
    (weft_mesh, *_), (torch_mesh, *_) = Both().each
    ours = mode_of_step(weft.parallelize_module, weft_mesh, weft.ColwiseParallel(), weft.RowwiseParallel())
    theirs = mode_of_step(torch_parallelize_module, torch_mesh, ColwiseParallel(), RowwiseParallel())
    assert counted(ours.comm_module_counts) == counted(theirs.comm_module_counts)
    assert ours.comm_module_counts["MLP.net2"]["forward"] == {functional.all_reduce: 1}
    assert {module: list(each) for module, each in ours.get_parameter_info().items()} == {
        module: list(each) for module, each in theirs.get_parameter_info().items()
    }
    assert list(ours.get_sharding_info()) == list(theirs.get_sharding_info())
    assert {name: str(each) for name, each in ours.get_sharding_info().items()} == {
        name: str(each) for name, each in theirs.get_sharding_info().items()
    }
    assert ours.generate_comm_debug_tracing_table(0) == theirs.generate_comm_debug_tracing_table(0)
    table = ours.generate_comm_debug_tracing_table(3)
    assert "*weight: (Shard(dim=0),)" in table and "sharding: " in table
    ours.log_comm_debug_tracing_table_to_file(tmp_path / "log.txt")
    assert "MLP.net1" in (tmp_path / "log.txt").read_text()
    ours.generate_json_dump(tmp_path / "log.json", noise_level=1)
    dump = json.loads((tmp_path / "log.json").read_text())
    assert dump["children"][0]["fqn"] == "MLP" and len(dump["children"][0]["children"]) == 2


def test_a_mode_begins_anew_and_ends():
    mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    x = weft.ones(4, device_mesh=mesh, placements=[Shard(0)])
    mode = weft.CommDebugMode()
    for _ in range(2):
        with mode:
            x.full_tensor()
        x.full_tensor()
        assert mode.get_total_counts() == 1
    with CommDebugMode() as outer:
        with CommDebugMode() as inner:
            x.full_tensor()
        x.full_tensor()
    assert (outer.get_total_counts(), inner.get_total_counts()) == (2, 1)
