"""Arguments of the wrong kind: a plain error that says what is required."""

import pytest
import torch
import weft

MESH = "mesh"


def cases():
    t = torch.ones(4, 4)
    for function in (weft.from_local, weft.distribute_tensor):
        yield function, (t, MESH, [weft.Shard(2)]), {}, (ValueError, IndexError)
        yield function, (t, MESH, [weft.Shard(0), weft.Shard(1)]), {}, ValueError
        yield function, (t, MESH, weft.Shard(0)), {}, TypeError
        yield function, (t, MESH, ["S(0)x"]), {}, (TypeError, ValueError)
        yield function, (t, MESH, [0]), {}, TypeError
        yield function, (t, MESH, [None]), {}, TypeError
        yield function, (t, MESH, 3), {}, TypeError
        yield function, (t, "mesh of another kind", [weft.Shard(0)]), {}, TypeError
        yield function, (t, None, [weft.Shard(0)]), {}, ValueError
        yield function, ([1.0], MESH, [weft.Shard(0)]), {}, TypeError
        yield function, (None, MESH, [weft.Shard(0)]), {}, TypeError
        yield function, (t, MESH, [weft.Shard(0)]), {"placement": 3}, TypeError
    yield weft.distribute_tensor, (t, MESH, [weft.Shard(0)]), {"src_data_rank": 5}, ValueError
    yield weft.redistribute, (t,), {"placements": [weft.Shard(0)]}, TypeError
    yield weft.full_tensor, (t,), {}, TypeError
    yield weft.to_local, (3,), {}, TypeError
    yield weft.parallelize_module, (torch.nn.Linear(2, 2), MESH, {"": "colwize"}), {}, ValueError
    yield weft.parallelize_module, (torch.nn.Linear(2, 2), MESH, 3), {}, TypeError
    yield weft.parallelize_module, (torch.nn.Linear(2, 2), MESH, weft.ColwiseParallel), {}, TypeError
    yield weft.parallelize_module, (torch.nn.Linear(2, 2), MESH, {3: weft.ColwiseParallel()}), {}, TypeError
    yield weft.parallelize_module, (t, MESH, weft.ColwiseParallel()), {}, TypeError
    yield weft.distribute_module, (t, MESH), {}, TypeError
    yield weft.materialize, (t, 3), {}, TypeError
    yield weft.overlap, ("on",), {}, ValueError
    yield weft.init_device_mesh, ("cpu", (7,)), {}, ValueError
    yield weft.init_device_mesh, ("gpu", (1,)), {}, (ValueError, RuntimeError)


@pytest.mark.parametrize("function, arguments, keywords, error", cases())
def test_arguments_of_the_wrong_kind(function, arguments, keywords, error):
    mesh = weft.init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
    arguments = [mesh if argument is MESH else argument for argument in arguments]
    with pytest.raises(error) as raised:
        function(*arguments, **keywords)
    assert "INTERNAL" not in str(raised.value)


def test_a_mesh_of_more_ranks_than_there_are():
    with pytest.raises(ValueError, match="ranks"):
        weft.init_device_mesh("cpu", (2,))


def test_a_tensor_of_another_mesh():
    def rank(_):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("a",))
        other = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("b",))
        x = weft.distribute_tensor(torch.ones(4), mesh, [weft.Shard(0)])
        y = weft.distribute_tensor(torch.ones(4), other, [weft.Shard(0)])
        with pytest.raises(ValueError, match="mesh"):
            x + y
        with pytest.raises(ValueError, match="one placement per mesh dim is required"):
            x.redistribute(other, [weft.Replicate(), weft.Replicate()])

    weft.run_on_ranks(2, rank)
