"""Training scripts as they are written for PyTorch's fully_shard, with the units of TorchTitan: losses and parameters of one device."""

import copy

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F
from weft import Replicate, Shard

RANKS, WORDS, DIM = 2, 31, 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.mix = nn.Linear(DIM, 3 * DIM, bias=False)
        self.out = nn.Linear(DIM, DIM)
        self.up = nn.Linear(DIM, 4 * DIM)
        self.down = nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        query, key, value = (
            part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.mix(self.norm(x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, DIM)
        self.layers = nn.ModuleDict({str(i): Block() for i in range(3)})
        self.norm = nn.LayerNorm(DIM)
        self.output = nn.Linear(DIM, WORDS, bias=False)

    def forward(self, tokens):
        x = self.words(tokens)
        for layer in self.layers.values():
            x = layer(x)
        return self.output(self.norm(x))


torch.manual_seed(0)
MODEL = Model().double()
DATA = [torch.randint(WORDS, (4, 9)) for _ in range(6)]


def sharded(model, mesh):
    weft.fully_shard(model.words, mesh)
    last = len(model.layers) - 1
    for number, layer in enumerate(model.layers.values()):
        weft.fully_shard(layer, mesh, reshard_after_forward=number < last)
    weft.fully_shard([model.norm, model.output], mesh, reshard_after_forward=False)
    return weft.fully_shard(model, mesh)


def loss_of(model, tokens):
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def step(model, optimizer, tokens, scale=1.0):
    loss = loss_of(model, tokens) * scale
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss


def with_groups(model, own):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.01, fused=True)
    for tokens in DATA:
        loss = loss_of(model, own(tokens))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        yield loss


def evaluated_between_steps(model, own):
    optimizer = adamw(model)
    for tokens in DATA:
        with torch.no_grad():
            yield loss_of(model, own(tokens))
        model.eval()
        with torch.inference_mode():
            loss = loss_of(model, own(tokens))
        yield loss.clone()
        model.train()
        yield step(model, optimizer, own(tokens))
        loss_of(model, own(tokens))  # with a graph that no backward runs


def accumulated(model, own):
    optimizer = adamw(model)
    for first, second in zip(DATA[::2], DATA[1::2]):
        if isinstance(model, weft._fully_sharded.module.FullyShardedModule):
            model.set_requires_gradient_sync(False)
        loss = loss_of(model, own(first)) / 2
        loss.backward()
        yield loss
        if isinstance(model, weft._fully_sharded.module.FullyShardedModule):
            model.set_requires_gradient_sync(True)
        yield step(model, optimizer, own(second), 0.5)


def thawed_later(model, own):
    optimizer = adamw(model)
    for number, tokens in enumerate(DATA):
        model.layers["0"].requires_grad_(number >= 3)
        yield step(model, optimizer, own(tokens))


def averaged(model, own):
    optimizer = adamw(model)
    average = [p.detach().clone() for p in model.parameters()]
    for tokens in DATA:
        yield step(model, optimizer, own(tokens))
        torch._foreach_lerp_(average, [p.detach() for p in model.parameters()], 0.1)
    with torch.no_grad():
        for parameter, mean in zip(model.parameters(), average):
            parameter.copy_(mean)
        yield loss_of(model, own(DATA[0]))


def with_the_best_state_kept(model, own):
    optimizer = adamw(model)
    for tokens in DATA[:3]:
        yield step(model, optimizer, own(tokens))
    best = copy.deepcopy(model.state_dict())
    of_optimizer = copy.deepcopy(optimizer.state_dict())
    for tokens in DATA[:2]:
        yield step(model, optimizer, own(tokens))
    model.load_state_dict(best)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.5)
    optimizer.load_state_dict(of_optimizer)
    for tokens in DATA[3:]:
        yield step(model, optimizer, own(tokens))


def optimized_in_backward(model, own):
    optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    for tokens in DATA:
        loss = loss_of(model, own(tokens))
        loss.backward()
        yield loss


def with_layers_left_out(model, own):
    """Modules of a unit are called by themselves, and some steps use fewer of them."""
    optimizer = adamw(model)
    for number, tokens in enumerate(DATA):
        x = model.words(own(tokens)[:, :-1])
        for name, layer in model.layers.items():
            x = x if number % 2 == 1 and name == "1" else layer(x)
        loss = F.cross_entropy(model.output(model.norm(x)).flatten(0, 1), own(tokens)[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        yield loss


def tried_again_after_an_error(model, own):
    optimizer = adamw(model)
    for tokens in DATA:
        def stop(*_):
            raise RuntimeError("out of memory")

        hook = model.layers["1"].register_forward_pre_hook(stop)
        with pytest.raises(RuntimeError, match="out of memory"):
            loss_of(model, own(tokens))
        hook.remove()
        yield step(model, optimizer, own(tokens))


SCRIPTS = [
    with_groups,
    evaluated_between_steps,
    accumulated,
    thawed_later,
    averaged,
    with_the_best_state_kept,
    optimized_in_backward,
    with_layers_left_out,
    tried_again_after_an_error,
]


@pytest.mark.parametrize("script", SCRIPTS)
def test_the_script_gives_what_it_gives_on_one_device(script):
    plain = copy.deepcopy(MODEL)
    expected = [loss.detach() for loss in script(plain, lambda tokens: tokens)]

    def program(rank):
        mesh = weft.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("dp",))
        model = sharded(copy.deepcopy(MODEL), mesh)
        losses = [loss.detach() for loss in script(model, lambda tokens: tokens.chunk(RANKS)[rank])]
        for loss, of_one in zip(losses, expected, strict=True):
            of_all = weft.from_local(loss.reshape(1), mesh, [Shard(0)]).full_tensor().mean()
            torch.testing.assert_close(of_all, of_one, rtol=1e-8, atol=1e-8)
        for name, value in model.state_dict().items():
            torch.testing.assert_close(value.full_tensor(), plain.get_parameter(name).detach(), rtol=1e-5, atol=1e-7)

    weft.run_on_ranks(RANKS, program, timeout=60)


class Sums(nn.Module):
    """Uses its second layer where it is told to."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 4), nn.Linear(6, 4)

    def forward(self, x, uses_second):
        y = self.first(x).square().sum()
        return y + self.second(x).square().sum() if uses_second else y


def test_batches_whose_layout_over_tensor_parallel_ranks_changes():
    """In some steps a gradient is a term of each of them, in others it is complete; and some ranks have none."""
    initial = Sums().double()
    batches = [torch.randn(8, 6, dtype=torch.float64) for _ in range(4)]

    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        own = mesh.get_local_rank("dp")
        model = weft.distribute_module(copy.deepcopy(initial), mesh["tp"])
        weft.fully_shard(model, mesh, "dp")
        for number, batch in enumerate(batches):
            plain = copy.deepcopy(initial)
            (sum(plain(rows, part == 1) for part, rows in enumerate(batch.chunk(2))) / 2).backward()
            model.zero_grad()
            placement = Shard(0) if number % 2 == 0 else Replicate()
            model(weft.distribute_tensor(batch.chunk(2)[own], mesh["tp"], [placement]), own == 1).backward()
            for name, parameter in plain.named_parameters():
                torch.testing.assert_close(model.get_parameter(name).grad.full_tensor(), parameter.grad)

    weft.run_on_ranks(4, program, timeout=60)
