"""Units whose forwards overlap: a unit of modules that run around others, and modules that call themselves or each other."""

import copy

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F

RANKS, DIM = 2, 6


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down, self.scale = nn.Linear(DIM, 11), nn.Linear(11, DIM), nn.Parameter(torch.rand(DIM))

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


class Model(nn.Module):
    def __init__(self, block=Block):
        super().__init__()
        self.first, self.blocks, self.last = nn.Linear(5, DIM), nn.ModuleList(block() for _ in range(3)), nn.Linear(DIM, 3)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


class CallingItself(Block):
    def forward(self, x, times=2):
        x = super().forward(x)
        if times > 0:
            x = self(x, times - 1)
        return super().forward(x) * self.scale


class Calling(Block):
    """Given blocks that it calls, which call it again."""

    def forward(self, x, others=(), times=3):
        x = super().forward(x)
        for other in others if times > 0 else ():
            x = other(x, [self], times - 1)
        return super().forward(x) * self.scale


class CallingEachOther(Model):
    def __init__(self):
        super().__init__(Calling)

    def forward(self, x):
        return self.last(self.blocks[0](self.first(x), [self.blocks[1], self.blocks[2]]))


def ends_in_one_unit(model, mesh):
    weft.fully_shard([model.first, model.last], mesh)


def outer_blocks_in_one_unit(model, mesh):
    weft.fully_shard([model.blocks[0], model.blocks[2]], mesh)


@pytest.mark.parametrize("is_global", [True, False], ids=["global view", "plain data"])
@pytest.mark.parametrize(
    ("make", "shard_some"),
    [
        (Model, ends_in_one_unit),
        (Model, outer_blocks_in_one_unit),
        (lambda: Model(CallingItself), lambda model, mesh: None),
        (CallingEachOther, lambda model, mesh: None),
    ],
    ids=["around the blocks", "around one block", "calls itself", "call each other"],
)
def test_gradients_are_those_of_one_device(make, shard_some, is_global):
    torch.manual_seed(3)
    model = make()
    x, target = torch.randn(8, 5), torch.randn(8, 3)
    expected = copy.deepcopy(model)
    for _ in range(3):
        F.mse_loss(expected(x), target).backward()

    def program(rank):
        mesh = weft.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("dp",))
        given = copy.deepcopy(model)
        shard_some(given, mesh)
        for block in given.blocks:
            if not hasattr(block, "unshard"):
                weft.fully_shard(block, mesh)
        weft.fully_shard(given, mesh)
        to_batch = (lambda t: weft.distribute_tensor(t, mesh, [weft.Shard(0)])) if is_global else (lambda t: t.chunk(RANKS)[rank])
        for _ in range(3):
            F.mse_loss(given(to_batch(x)), to_batch(target)).backward()
        assert all(weft.is_dtensor(p) for p in given.parameters())
        for name, parameter in expected.named_parameters():
            found = given.get_parameter(name).grad
            if parameter.grad is None:
                assert found is None
            else:
                torch.testing.assert_close(found.full_tensor(), parameter.grad, rtol=1e-4, atol=1e-5)

    weft.run_on_ranks(RANKS, program)
