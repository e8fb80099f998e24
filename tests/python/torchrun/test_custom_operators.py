"""Operators of other libraries over two processes: replicated, by rules, in local regions, and in exported programs."""

import torch
import torch.distributed as dist
import weft
from torch import nn
from weft import Replicate, Shard


@torch.library.custom_op("weft_processes::gate", mutates_args=())
def gate(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * by.detach().sigmoid().numpy())


@gate.register_fake
def _(x, by):
    return torch.empty_like(x)


def save(ctx, inputs, output):
    ctx.save_for_backward(*inputs)


def gradients(ctx, gradient):
    x, by = ctx.saved_tensors
    open_ = by.sigmoid()
    return gradient * open_, gradient * x * open_ * (1 - open_)


gate.register_autograd(gradients, setup_context=save)


def mesh():
    return weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))


def run(x, by, placement):
    dx, dby = (weft.distribute_tensor(t, mesh(), [placement]).requires_grad_() for t in (x, by))
    y = gate(dx, dby)
    y.sum().backward()
    return y, dx.grad.full_tensor(), dby.grad.full_tensor()


def test_replicated_and_by_a_rule():
    x, by = torch.randn(5, 4), torch.randn(5, 4)
    plain = [x.clone().requires_grad_(), by.clone().requires_grad_()]
    want = gate(*plain)
    want.sum().backward()
    for placement, registers in ((Replicate(), False), (Shard(0), True)):
        if registers:
            weft.register_sharding(gate, "([a,b],[a,b])->([a,b])")
        y, *grads = run(x, by, Shard(0))
        assert y.placements == (placement,)
        torch.testing.assert_close(y.full_tensor(), want.detach())
        torch.testing.assert_close(grads, [t.grad for t in plain])
    weft.unregister_sharding(gate)


def test_a_local_region_may_communicate():
    x = torch.randn(4, 6)

    @weft.local(inputs={"x": [Shard(1)]}, outputs=[Replicate()])
    def row_sums(x):
        sums = x.sum(1)
        dist.all_reduce(sums)
        return sums

    y = row_sums(weft.distribute_tensor(x, mesh(), [Shard(0)]))
    assert y.placements == (Replicate(),)
    torch.testing.assert_close(y.to_local(), x.sum(1))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.by, self.down = nn.Linear(8, 12), nn.Linear(8, 12), nn.Linear(12, 8)

    def forward(self, x):
        return self.down(gate(self.up(x), self.by(x)))


def test_an_exported_program_with_a_rule():
    model, x = Gated(), torch.randn(3, 8)
    program = torch.export.export(model, (x,))
    plan = {"up": "colwise", "by": "colwise", "down": "rowwise"}

    def collectives(parallel):
        return [str(n.target) for n in parallel.graph.nodes if "_c10d_functional" in str(n.target) and "wait" not in str(n.target)]

    without = weft.tensor_parallel(program, mesh(), plan)
    weft.register_sharding(gate, "([...,a],[...,a])->([...,a])")
    ruled = weft.tensor_parallel(program, mesh(), plan)
    weft.unregister_sharding(gate)
    assert len(collectives(ruled)) == 1 < len(collectives(without))
    for parallel in (without, ruled):
        torch.testing.assert_close(parallel.module()(x), model(x))
