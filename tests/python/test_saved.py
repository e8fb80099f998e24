"""torch.save and pickle of distributed tensors: each rank its own local tensor."""

import copy
import io
import pickle

import pytest
import torch
import weft
from torch import nn
from weft import Partial, Replicate, Shard

X = torch.arange(30.0).reshape(5, 6)


def saved(value):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return buffer


def on_mesh(program, ranks=2):
    return weft.run_on_ranks(ranks, lambda rank: program(weft.init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))))


@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Replicate(), Partial()])
@pytest.mark.parametrize("weights_only", [True, False])
def test_a_rank_loads_what_it_has_saved(placement, weights_only):
    def program(mesh):
        x = weft.distribute_tensor(X, mesh, [placement]).requires_grad_()
        for again in (torch.load(saved(x), weights_only=weights_only), pickle.loads(pickle.dumps(x))):
            assert weft.spec(again) == weft.spec(x) and again.requires_grad and again.is_leaf
            assert torch.equal(again.full_tensor(), X)
            with torch.no_grad():
                again.zero_()
        assert torch.equal(x.full_tensor(), X)

    on_mesh(program)


def test_strides_and_submeshes_are_kept():
    def program(mesh):
        grid = weft.DeviceMesh("cpu", [[0, 1], [2, 3]], mesh_dim_names=("dp", "tp"))
        x = weft.distribute_tensor(X.t(), grid["tp"], [Shard(0)])
        again = pickle.loads(pickle.dumps(x))
        assert weft.spec(again) == weft.spec(x) and again.stride() == x.stride()
        assert torch.equal((again + x).full_tensor(), 2 * X.t())

    on_mesh(program, ranks=4)


def test_modules_and_their_states():
    def program(mesh):
        layer = weft.parallelize_module(nn.Linear(6, 4), mesh, weft.ColwiseParallel())
        state = torch.load(saved(layer.state_dict()))
        other = weft.parallelize_module(nn.Linear(6, 4), mesh, weft.ColwiseParallel())
        other.load_state_dict(state)
        assert torch.equal(other.weight.full_tensor(), layer.weight.full_tensor())
        parameter = torch.load(saved({"w": layer.weight}))["w"]
        assert isinstance(parameter, nn.Parameter) and weft.is_dtensor(parameter)
        shallow = copy.copy(layer.weight.detach())
        shallow.zero_()
        assert not layer.weight.full_tensor().any(), "a shallow copy shares the memory"

    on_mesh(program)


def test_another_rank_is_told_what_to_do():
    files = on_mesh(lambda mesh: saved(weft.distribute_tensor(X, mesh, [Shard(0)])).getvalue())

    def program(mesh):
        other = 1 - mesh.get_coordinate()[0]
        with pytest.raises(RuntimeError, match=rf"\[pickle\] rank {other} of at least 2 is required, .*checkpoint"):
            torch.load(io.BytesIO(files[other]))

    on_mesh(program)
    with pytest.raises(RuntimeError, match=r"but this is rank 0 of 1"):
        torch.load(io.BytesIO(files[0]))
