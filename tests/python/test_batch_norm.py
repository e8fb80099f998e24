"""Batch norm and its kin on a sharded batch: moments are exchanged, activations are not."""

import copy

import pytest
import torch
import weft
from torch import nn
from weft import Replicate, Shard


def distributed(module, mesh, placements=None):
    """A copy of the module with parameters and buffers replicated, or as `placements` says by name."""
    module = copy.deepcopy(module)
    replicated = [Replicate()] * mesh.ndim
    for owner in module.modules():
        for name, parameter in list(owner.named_parameters(recurse=False)):
            placed = weft.distribute_tensor(parameter.data, mesh, placements or replicated)
            owner.register_parameter(name, nn.Parameter(placed))
        for name, buffer in list(owner.named_buffers(recurse=False)):
            owner.register_buffer(name, weft.distribute_tensor(buffer, mesh, placements if placements and buffer.dim() else replicated))
    return module


def run(module, x, gradient):
    x = x.detach().requires_grad_()
    y = module(x)
    y.backward(gradient)
    return y, x.grad


def expect_same(module, expected, y, x_gradient, y_plain, x_gradient_plain, tolerance=1e-5):
    def close(a, b):
        torch.testing.assert_close(a.full_tensor(), b, rtol=tolerance, atol=tolerance)

    close(y, y_plain)
    close(x_gradient, x_gradient_plain)
    for (name, a), (_, b) in zip(module.named_parameters(), expected.named_parameters(), strict=True):
        close(a.grad, b.grad)
    for (name, a), (_, b) in zip(module.named_buffers(), expected.named_buffers(), strict=True):
        close(a, b)
        assert torch.equal(a.to_local(), weft.distribute_tensor(a.full_tensor(), a.device_mesh, a.placements).to_local())


NORMS = {
    "BatchNorm1d of rows": (nn.BatchNorm1d(3), (5, 3)),
    "BatchNorm1d": (nn.BatchNorm1d(3), (5, 3, 4)),
    "BatchNorm2d": (nn.BatchNorm2d(3), (5, 3, 4, 2)),
    "BatchNorm3d": (nn.BatchNorm3d(3), (5, 3, 2, 2, 3)),
    "cumulative average": (nn.BatchNorm2d(3, momentum=None), (5, 3, 4, 2)),
    "no running statistics": (nn.BatchNorm2d(3, track_running_stats=False), (5, 3, 4, 2)),
    "not affine": (nn.BatchNorm2d(3, affine=False), (5, 3, 4, 2)),
    "InstanceNorm1d": (nn.InstanceNorm1d(3, affine=True), (5, 3, 4)),
    "InstanceNorm1d, running": (nn.InstanceNorm1d(3, affine=True, track_running_stats=True), (5, 3, 4)),
    "InstanceNorm2d": (nn.InstanceNorm2d(3), (5, 3, 4, 2)),
    "InstanceNorm2d, running": (nn.InstanceNorm2d(3, track_running_stats=True), (5, 3, 4, 2)),
    "InstanceNorm3d": (nn.InstanceNorm3d(3, affine=True), (5, 3, 2, 2, 3)),
    "InstanceNorm3d, running": (nn.InstanceNorm3d(3, affine=True, track_running_stats=True), (5, 3, 2, 2, 3)),
    "GroupNorm": (nn.GroupNorm(2, 4), (5, 4, 3, 2)),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("ranks", [2, 4])  # of 5 samples the last of 4 ranks has none
@pytest.mark.parametrize("name", NORMS)
def test_a_sharded_batch_is_normalized_where_it_is(name, ranks, training):
    module, shape = NORMS[name]
    module = copy.deepcopy(module).train(training)
    torch.manual_seed(0)
    for tensor in (*module.parameters(), *(b for b in module.buffers() if b.dim())):
        tensor.data.uniform_(0.5, 1.5)
    x, gradient = torch.randn(shape) + 3, torch.randn(shape)
    plain = copy.deepcopy(module)
    expected = run(plain, x, gradient)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (ranks,))
        norm = distributed(module, mesh)
        local_x = weft.distribute_tensor(x, mesh, [Shard(0)])
        local_gradient = weft.distribute_tensor(gradient, mesh, [Shard(0)])
        with weft.comm_debug() as communication:
            y, x_gradient = run(norm, local_x, local_gradient)
        assert y.placements == x_gradient.placements == (Shard(0),)
        assert set(communication.by_collective()) <= {"all_reduce"}
        expect_same(norm, plain, y, x_gradient, *expected)

    weft.run_on_ranks(ranks, rank_program)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))
        self.second = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        return torch.relu(x + self.second(torch.relu(self.first(x))))


def small_resnet():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), Residual(8), Residual(8),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10),
    )  # fmt: skip


def train(model, x, target, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.full_tensor() if weft.is_dtensor(loss) else loss.detach())
    return torch.stack(losses)


@pytest.mark.parametrize("ranks, batch", [(2, 8), (2, 5), (4, 5)])
def test_a_small_resnet_is_trained_as_on_a_single_device(ranks, batch):
    torch.manual_seed(0)
    model = small_resnet().double()
    x, target = torch.randn(batch, 3, 8, 8, dtype=torch.float64), torch.randint(0, 10, (batch,))
    plain = copy.deepcopy(model)
    expected = train(plain, x, target)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (ranks,))
        parallel = distributed(model, mesh)
        placements = []
        for module in parallel.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.register_forward_hook(lambda module, inputs, output: placements.append(output.placements))
        losses = train(
            parallel, weft.distribute_tensor(x, mesh, [Shard(0)]), weft.distribute_tensor(target, mesh, [Shard(0)])
        )
        assert set(placements) == {(Shard(0),)}
        torch.testing.assert_close(losses, expected, rtol=1e-9, atol=1e-9)
        for a, b in zip(parallel.state_dict().values(), plain.state_dict().values(), strict=True):
            torch.testing.assert_close(a.full_tensor(), b, rtol=1e-8, atol=1e-8)

    weft.run_on_ranks(ranks, rank_program)


def test_batch_and_channels_are_sharded_on_two_mesh_dims():
    torch.manual_seed(0)
    module = nn.BatchNorm2d(6)
    x, gradient = torch.randn(5, 6, 3, 2), torch.randn(5, 6, 3, 2)
    plain = copy.deepcopy(module)
    expected = run(plain, x, gradient)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        for placements in ([Replicate(), Shard(0)], [Replicate(), Replicate()]):
            norm = distributed(module, mesh, placements)
            y, x_gradient = run(
                norm,
                weft.distribute_tensor(x, mesh, [Shard(0), Shard(1)]),
                weft.distribute_tensor(gradient, mesh, [Shard(0), Shard(1)]),
            )
            assert y.placements == x_gradient.placements == (Shard(0), Shard(1))
            expect_same(norm, plain, y, x_gradient, *expected)

    weft.run_on_ranks(4, rank_program)


def test_autocast_keeps_statistics_in_f32():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    x = torch.randn(5, 3, 6, 6)
    plain = copy.deepcopy(model)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = plain(x)
    expected.sum().backward()

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        parallel = distributed(model, mesh)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = parallel(weft.distribute_tensor(x, mesh, [Shard(0)]))
        assert y.dtype == expected.dtype and y.placements == (Shard(0),)
        torch.testing.assert_close(y.full_tensor(), expected, rtol=2e-2, atol=2e-2)
        y.sum().backward()
        for a, b in zip(parallel[1].parameters(), plain[1].parameters(), strict=True):
            torch.testing.assert_close(a.grad.full_tensor(), b.grad, rtol=2e-2, atol=2e-2)
        torch.testing.assert_close(parallel[1].running_var.full_tensor(), plain[1].running_var, rtol=1e-2, atol=1e-2)

    weft.run_on_ranks(2, rank_program)


def test_channels_last_stays_channels_last():
    torch.manual_seed(0)
    x = torch.randn(5, 4, 3, 3).to(memory_format=torch.channels_last)
    expected = nn.BatchNorm2d(4)(x)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        local_x = weft.distribute_tensor(x, mesh, [Shard(0)]).contiguous(memory_format=torch.channels_last)
        y = distributed(nn.BatchNorm2d(4), mesh)(local_x)
        assert y.stride() == expected.stride() and y.is_contiguous(memory_format=torch.channels_last)
        torch.testing.assert_close(y.full_tensor(), expected)

    weft.run_on_ranks(2, rank_program)


def test_sync_batch_norm_says_what_to_use():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = weft.distribute_tensor(torch.randn(4, 3), mesh, [Shard(0)])
        with pytest.raises(NotImplementedError, match="Use torch.nn.BatchNorm: on distributed tensors its statistics"):
            torch.batch_norm_stats(x, 1e-5)

    weft.run_on_ranks(2, rank_program)
