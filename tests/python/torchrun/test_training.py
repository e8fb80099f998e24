"""A tensor-parallel decoder, written once and trained with Weft and with PyTorch's DTensor: the same numbers."""

import copy

import pytest
import torch
import torch.distributed.tensor as torch_tensor
import weft
from torch import nn
from torch.nn import functional as F

DIM, HEADS, SEQUENCE, BATCH, VOCABULARY = 16, 4, 6, 2, 10


def fused_attention(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def plain_attention(q, k, v):
    return torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, -1) @ v


class Attention(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.attend = attend
        self.q, self.k, self.v, self.o = (nn.Linear(DIM, DIM, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (project(x).view(BATCH, SEQUENCE, HEADS, -1).transpose(1, 2) for project in (self.q, self.k, self.v))
        return self.o(self.attend(q, k, v).transpose(1, 2).reshape(BATCH, SEQUENCE, DIM))


class Block(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.attention = Attention(attend)
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self, attend):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, DIM)
        self.blocks = nn.ModuleList(Block(attend) for _ in range(2))
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


COLWISE, ROWWISE = ("q", "k", "v", "up"), ("o", "down")


def parallelized(model, package, mesh):
    """The same code for both packages: columns of what widens, rows of what narrows, the rest replicated."""

    def partition(name, module, mesh):
        last = name.split(".")[-1]
        for key, parameter in list(module.named_parameters(recurse=False)):
            placement = package.Replicate()
            if last in COLWISE:
                placement = package.Shard(0)
            elif last in ROWWISE and key == "weight":
                placement = package.Shard(1)
            distributed = package.distribute_tensor(parameter.data, mesh, [placement])
            module.register_parameter(key, nn.Parameter(distributed))

    return package.distribute_module(model, mesh, partition)


def trained(model, to_input=lambda t: t, steps=3):
    generator = torch.Generator().manual_seed(5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, foreach=True)
    losses, norms = [], []
    for _ in range(steps):
        tokens = torch.randint(VOCABULARY, (BATCH, SEQUENCE + 1), generator=generator)
        inputs, targets = to_input(tokens[:, :-1].contiguous()), to_input(tokens[:, 1:].contiguous())
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss)
        norms.append(norm)
    whole = [value.full_tensor().item() if hasattr(value, "full_tensor") else value.item() for value in losses + norms]
    return whole, [p.full_tensor().detach() if hasattr(p, "full_tensor") else p.detach() for p in model.parameters()]


def check_same(one, other):
    assert one[0] == pytest.approx(other[0], rel=1e-4)
    for first, second in zip(one[1], other[1]):
        torch.testing.assert_close(first, second, rtol=1e-3, atol=1e-5)


def trained_in_parallel(model, package, mesh):
    parallelized(model, package, mesh)
    return trained(model, lambda t: package.distribute_tensor(t, mesh, [package.Replicate()]))


@pytest.mark.parametrize("attend", [fused_attention, plain_attention])
def test_a_decoder_trains_as_on_one_device(attend):
    single = Decoder(attend)
    ours = copy.deepcopy(single)
    mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    check_same(trained_in_parallel(ours, weft, mesh), trained(single))


def test_a_decoder_trains_as_with_pytorchs_dtensor():
    ours = Decoder(plain_attention)  # PyTorch's has no strategy for the fused one on CPU
    theirs = copy.deepcopy(ours)
    mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    check_same(trained_in_parallel(ours, weft, mesh), trained_in_parallel(theirs, torch_tensor, mesh.to_torch()))
    for (name, mine), its in zip(ours.named_parameters(), theirs.parameters()):
        assert mine.placements == weft.from_torch(its.detach()).placements, name
        assert mine.grad.placements == mine.placements, name


def test_data_parallel_gradients_are_those_of_pytorchs_dtensor():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    x = torch.randn(6, 4)
    mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    gradients = []
    for package, on in ((weft, mesh), (torch_tensor, mesh.to_torch())):
        replica = package.distribute_module(copy.deepcopy(model), on)
        replica(package.distribute_tensor(x, on, [package.Shard(0)])).pow(2).mean().backward()
        gradients.append([p.grad.full_tensor() for p in replica.parameters()])
    for mine, its in zip(*gradients):
        torch.testing.assert_close(mine, its)


OPERATORS = {
    "add": lambda x, y: x + y,
    "matmul": lambda x, y: x @ y.t(),
    "softmax": lambda x, y: torch.softmax(x, -1) * y,
    "mean": lambda x, y: (x * y).mean(0),
    "cat": lambda x, y: torch.cat([x, y], 1),
    "transpose": lambda x, y: (x.t() @ y),
    "layer_norm": lambda x, y: F.layer_norm(x, x.shape[-1:]) + y,
    "max": lambda x, y: torch.maximum(x, y).amax(1),
    "where": lambda x, y: torch.where(x > 0, x, y),
    "slice": lambda x, y: x[:, 1:3] * y[:, :2],
}


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_and_its_gradient_are_those_of_pytorchs_dtensor(name, dim):
    mesh = weft.init_device_mesh("cpu", (2,))
    whole = torch.randn(4, 6), torch.randn(4, 6)
    results = []
    for package, on in ((weft, mesh), (torch_tensor, mesh.to_torch())):
        x, y = (package.distribute_tensor(t, on, [package.Shard(dim)]).requires_grad_() for t in whole)
        result = OPERATORS[name](x, y)
        result.sum().backward()
        results.append([result.full_tensor(), x.grad.full_tensor(), y.grad.full_tensor()])
    for mine, its in zip(*results):
        torch.testing.assert_close(mine, its)
