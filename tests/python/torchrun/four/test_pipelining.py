"""torch.distributed.pipelining on pp=2 x tp=2: what crosses from stage to stage is distributed over tp."""

import copy

import pytest
import torch
import torch.distributed as dist
import weft
from torch import nn
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleZBVZeroBubble,
)
from torch.nn import functional as F
from weft import ColwiseParallel, Replicate, RowwiseParallel, Shard

ROWS, LENGTH, DIM = 8, 4, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


@pytest.fixture
def mesh():
    return weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "tp"))


@pytest.fixture
def blocks():
    return [Block() for _ in range(4)]


@pytest.fixture
def data():
    return torch.randn(ROWS, LENGTH, DIM), torch.randn(ROWS, LENGTH, DIM)


def on_tp(module, mesh, layout):
    plan = {
        "up": ColwiseParallel(input_layouts=layout),
        "down": RowwiseParallel(output_layouts=layout, use_local_output=False),
    }
    return weft.parallelize_module(copy.deepcopy(module), mesh["tp"], plan)


def expect_as_plain(schedule, parts, mesh, blocks, data, layout):
    """Runs two steps of a schedule over all blocks; `parts` are those of this rank, by position."""
    network = nn.Sequential(*copy.deepcopy(blocks))
    expected = network(data[0])
    loss = F.mse_loss(expected, data[1])
    loss.backward()
    x, y = (weft.distribute_tensor(t, mesh["tp"], [layout]) for t in data)
    for _ in range(2):
        losses = []
        for part in parts.values():
            part.zero_grad()
        options = {"target": y, "losses": losses} if len(blocks) - 1 in parts else {}
        output = schedule.step(*([x] if 0 in parts else []), **options)
        if losses:
            torch.testing.assert_close(sum(each.full_tensor() for each in losses) / len(losses), loss)
            assert output.placements == (layout,)
            torch.testing.assert_close(output.full_tensor(), expected)
        for position, part in parts.items():
            for (name, parameter), plain in zip(part.named_parameters(), network[position].parameters(), strict=True):
                torch.testing.assert_close(parameter.grad.full_tensor(), plain.grad, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("layout", [Replicate(), Shard(1)], ids=str)
@pytest.mark.parametrize("kind", [ScheduleGPipe, Schedule1F1B])
def test_one_stage_per_rank(mesh, blocks, data, kind, layout):
    position = mesh.get_local_rank("pp")
    part = on_tp(blocks[position], mesh, layout)
    stage = PipelineStage(part, position, 2, torch.device("cpu"), group=mesh["pp"].get_group())
    expect_as_plain(kind(stage, 4, loss_fn=F.mse_loss), {position: part}, mesh, blocks[:2], data, layout)


@pytest.mark.parametrize("layout", [Replicate(), Shard(1)], ids=str)
@pytest.mark.parametrize("kind", [ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble, ScheduleZBVZeroBubble])
def test_two_stages_per_rank(mesh, blocks, data, kind, layout):
    own = mesh.get_local_rank("pp")
    positions = (own, 3 - own) if kind is ScheduleZBVZeroBubble else (own, own + 2)
    parts = {position: on_tp(blocks[position], mesh, layout) for position in positions}
    stages = [
        PipelineStage(part, position, 4, torch.device("cpu"), group=mesh["pp"].get_group())
        for position, part in parts.items()
    ]
    expect_as_plain(kind(stages, 4, loss_fn=F.mse_loss), parts, mesh, blocks, data, layout)


def test_a_function_may_give_the_mesh(mesh, data):
    """A stage without parameters of its own has no other way to know it."""
    position = mesh.get_local_rank("pp")
    asked = []

    def get_mesh(names, layout):
        asked.append(names)
        return mesh["tp"]

    stage = PipelineStage(nn.Tanh(), position, 2, torch.device("cpu"), group=mesh["pp"].get_group(), get_mesh=get_mesh)
    x = weft.distribute_tensor(data[0], mesh["tp"], [Shard(2)])
    schedule = ScheduleGPipe(stage, 2)
    output = schedule.step(x) if position == 0 else schedule.step()
    if position == 1:
        assert asked == [("tp",)]
        torch.testing.assert_close(output.full_tensor(), data[0].tanh().tanh())


def test_tensors_of_pytorch_cross_as_ever(mesh, data):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Shard, distribute_tensor

    of_torch = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "tp"))
    position = mesh.get_local_rank("pp")
    stage = PipelineStage(
        nn.Tanh(),
        position,
        2,
        torch.device("cpu"),
        group=of_torch["pp"].get_group(),
        get_mesh=lambda names, layout: of_torch["tp"],
    )
    schedule = ScheduleGPipe(stage, 2)
    output = schedule.step(distribute_tensor(data[0], of_torch["tp"], [Shard(2)])) if position == 0 else schedule.step()
    if position == 1:
        assert isinstance(output, DTensor)
        torch.testing.assert_close(output.full_tensor(), data[0].tanh().tanh())
    dist.barrier()
