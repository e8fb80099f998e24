"""Plain tensors among distributed ones: replicated by contract in the forward of a parallelised module, an error elsewhere."""

import copy
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import weft
from torch import nn
from torch.utils.checkpoint import checkpoint
from weft import ColwiseParallel, Replicate, RowwiseParallel, Shard

RANKS = 2
MIXED = "distributed and plain tensors cannot be mixed"


class Attention(nn.Module):
    """Attention of a Llama-style block: rotary tables in buffers, a causal mask and positions made in forward, a cache."""

    def __init__(self, dim=16, heads=4, kv_heads=2, length=12):
        super().__init__()
        self.heads, self.kv_heads, self.size = heads, kv_heads, dim // heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, self.size * kv_heads, bias=False)
        self.wv = nn.Linear(dim, self.size * kv_heads, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        angles = torch.outer(torch.arange(length).float(), 10 ** -torch.arange(0, self.size, 2).float())
        self.cos = torch.cat([angles.cos(), angles.cos()], -1)  # an attribute, no buffer: stays plain
        self.register_buffer("sin", torch.cat([angles.sin(), angles.sin()], -1), persistent=False)

    def rotated(self, x, positions):
        first, second = x.chunk(2, -1)
        return x * self.cos[positions] + torch.cat([-second, first], -1) * self.sin[positions]

    def forward(self, x, positions, cache=None):
        batch, length, _ = x.shape

        def heads_of(y, heads):
            return y.view(batch, length, heads, self.size).transpose(1, 2)

        q = self.rotated(heads_of(self.wq(x), self.heads), positions)
        k = self.rotated(heads_of(self.wk(x), self.kv_heads), positions)
        v = heads_of(self.wv(x), self.kv_heads)
        if cache is not None:
            k, v = cache.update(k, v, positions)
        k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
        mask = torch.full((length, k.shape[2]), float("-inf")).triu(int(positions[0]) + 1)
        scores = q @ k.transpose(2, 3) / math.sqrt(self.size) + mask
        y = scores.softmax(-1) @ v
        return self.wo(y.transpose(1, 2).reshape(batch, length, -1))


class GrowingCache:
    def __init__(self):
        self.k = self.v = None

    def update(self, k, v, positions):
        self.k = k if self.k is None else torch.cat([self.k, k], 2)
        self.v = v if self.v is None else torch.cat([self.v, v], 2)
        return self.k, self.v


class StaticCache:
    def __init__(self, batch, kv_heads, length, size):
        self.k = torch.zeros(batch, kv_heads, length, size)
        self.v = torch.zeros(batch, kv_heads, length, size)

    def update(self, k, v, positions):
        self.k.index_copy_(2, positions, k.detach())
        self.v[:, :, positions] = v.detach()
        return self.k, self.v


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(24, 16)
        self.attention = Attention()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)
        self.head = nn.Linear(16, 24, bias=False)
        self.recompute = None

    def forward(self, tokens, cache=None, start=0):
        positions = torch.arange(start, start + tokens.shape[1])
        x = self.embed(tokens)
        if self.recompute is None:
            x = x + self.attention(x, positions, cache)
        else:
            x = x + checkpoint(self.attention, x, positions, use_reentrant=self.recompute == "reentrant")
        x = x + self.down(F.gelu(self.up(x)) * torch.linspace(1, 2, 32))
        return self.head(x)


PLAN = {
    "embed": RowwiseParallel(input_layouts=Replicate(), use_local_output=False),
    "attention.w[qkv]": ColwiseParallel(use_local_output=False),
    "attention.wo": RowwiseParallel(use_local_output=False),
    "up": ColwiseParallel(use_local_output=False),
    "down": RowwiseParallel(use_local_output=False),
    "head": ColwiseParallel(output_layouts=Replicate(), use_local_output=False),
}


def on_ranks(program):
    def rank_program(rank):
        return program(weft.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("tp",)))

    return weft.run_on_ranks(RANKS, rank_program)


def parallel(model, mesh, **options):
    return weft.parallelize_module(copy.deepcopy(model), mesh, PLAN, **options)


def tokens():
    return torch.arange(14).view(2, 7) * 5 % 24


def full(tensor):
    return (tensor.full_tensor() if weft.is_dtensor(tensor) else tensor).detach()


@pytest.mark.parametrize("recompute", [None, "reentrant", "without reentry"])
def test_a_model_that_makes_masks_and_positions_trains_as_on_one_device(recompute):
    model = Model()
    F.cross_entropy(model(tokens()).flatten(0, 1), tokens().flatten()).backward()

    def program(mesh):
        shared = parallel(model, mesh)
        shared.recompute = recompute
        logits = shared(tokens())
        torch.testing.assert_close(full(logits), model(tokens()).detach())
        target = weft.distribute_tensor(tokens().flatten(), mesh, [Replicate()])
        F.cross_entropy(logits.flatten(0, 1), target).backward()
        for (name, got), want in zip(shared.named_parameters(), model.parameters()):
            torch.testing.assert_close(full(got.grad), want.grad, msg=lambda text: f"{name}: {text}")

    on_ranks(program)


@pytest.mark.parametrize("cache_of", [GrowingCache, lambda: StaticCache(2, 2, 12, 4)])
def test_a_loop_that_generates_gives_the_tokens_of_one_device(cache_of):
    def generated(model):
        cache = cache_of()
        sequence = tokens()[:, :3]
        new = sequence
        with torch.no_grad():
            while sequence.shape[1] < 9:
                logits = full(model(new, cache, sequence.shape[1] - new.shape[1]))
                new = logits[:, -1:].argmax(-1)
                sequence = torch.cat([sequence, new], 1)
        return sequence

    model = Model()
    want = generated(model)
    for got in on_ranks(lambda mesh: generated(parallel(model, mesh))):
        assert torch.equal(got, want)


def test_submodules_alone_and_copies_of_the_model_have_the_contract():
    model = Model()
    x = torch.arange(2 * 7 * 16.0).view(2, 7, 16).sin()

    def program(mesh):
        for each in (parallel(model, mesh), copy.deepcopy(parallel(model, mesh))):
            got = each.attention(weft.distribute_tensor(x, mesh, [Replicate()]), torch.arange(7))
            torch.testing.assert_close(full(got), model.attention(x, torch.arange(7)).detach())

    on_ranks(program)


def test_distribute_module_has_the_contract_and_both_can_be_made_without():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x):
            return self.inner(x) * torch.arange(4.0)

    def program(mesh):
        x = weft.distribute_tensor(torch.ones(2, 4), mesh, [Shard(0)])
        plain = Scaled()
        shared = weft.distribute_module(copy.deepcopy(plain), mesh)
        torch.testing.assert_close(full(shared(x)).shape, torch.Size([2, 4]))
        for made in (
            weft.distribute_module(copy.deepcopy(plain), mesh, replicate_plain=False),
            weft.parallelize_module(copy.deepcopy(plain), mesh, {"inner": "replicate"}, replicate_plain=False),
        ):
            with pytest.raises(ValueError, match=MIXED):
                made(x)
            with weft.replicate_plain():
                made(x)

    on_ranks(program)


def test_nested_parallelised_modules_and_hooks_are_inside():
    class Outer(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            y = self.inner(x + torch.ones(4))
            return y + torch.ones(4)  # after the inner one is left

    def program(mesh):
        inner = weft.distribute_module(nn.Linear(4, 4), mesh)
        outer = weft.distribute_module(Outer(inner), mesh)
        outer.register_forward_pre_hook(lambda module, inputs: (inputs[0] * torch.arange(4.0),))
        outer.register_forward_hook(lambda module, inputs, output: output * torch.arange(4.0))
        x = weft.distribute_tensor(torch.ones(2, 4), mesh, [Shard(0)])
        outer(x).sum().backward()
        with pytest.raises(ValueError, match=MIXED):
            x + torch.ones(4)

    on_ranks(program)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_forward_that_raises_is_left(error):
    class Raising(nn.Module):
        def forward(self, x):
            (x + torch.ones(4)).sum()
            raise error

    def program(mesh):
        module = weft.distribute_module(Raising(), mesh)
        x = weft.distribute_tensor(torch.ones(4), mesh, [Shard(0)])
        with pytest.raises(error):
            module(x)
        with pytest.raises(ValueError, match=MIXED):
            x + torch.ones(4)

    on_ranks(program)


def test_a_plan_that_gives_out_plain_shards_has_no_contract_by_default():
    """There a plain tensor is this rank's shard, so that taking it for replicated would be wrong."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up = nn.Linear(4, 4)
            self.kept = nn.Linear(4, 4)

        def forward(self, x):
            return self.up(x) * self.kept.weight[:, :2].sum(0)

    def program(mesh):
        plan = {"up": ColwiseParallel(), "kept": ColwiseParallel(use_local_output=False)}
        with pytest.raises(ValueError, match=MIXED):
            weft.parallelize_module(Block(), mesh, plan)(torch.ones(2, 4))
        weft.parallelize_module(Block(), mesh, plan, replicate_plain=True)(torch.ones(2, 4))

    on_ranks(program)


def test_debug_mode_compares_plain_tensors_between_ranks():
    class Adds(nn.Module):
        def forward(self, x, other):
            return x + other

    def program(mesh):
        rank = mesh.get_local_rank()
        module = weft.distribute_module(Adds(), mesh)
        x = weft.distribute_tensor(torch.ones(4), mesh, [Shard(0)])
        with weft.debug():
            module(x, torch.arange(4.0))
            with pytest.raises(ValueError, match=r"argument 'other' of aten::add, of shape \[4\], differs between ranks 0 and 1"):
                module(x, torch.arange(4.0) + rank)
            with pytest.raises(ValueError, match="differs between ranks 0 and 1"):
                x * torch.tensor([2.0 + rank])

    on_ranks(program)


def test_lists_of_numbers_index_as_numbers_do():
    values = torch.arange(24.0).reshape(6, 4)

    def program(mesh):
        for placement in (Shard(0), Shard(1), Replicate()):
            x = weft.distribute_tensor(values, mesh, [placement])
            for index in ([0, 2], (slice(None), [3, 1]), ([0, 5], [1, 2]), [True, False] * 3, np.array([4, 4])):
                assert torch.equal(x[index].full_tensor(), values[index])
                written, expected = x.clone(), values.clone()
                written[index] = 7.0
                expected[index] = 7.0
                assert torch.equal(written.full_tensor(), expected)
            with pytest.raises(ValueError, match="argument 'indices' is a plain tensor"):
                x[torch.tensor([0, 2])]

    on_ranks(program)


def test_tensors_of_one_element_count_as_numbers():
    def program(mesh):
        x = weft.distribute_tensor(torch.arange(6.0).view(3, 2), mesh, [Shard(0)])
        for one in (torch.tensor(2.0), torch.tensor([2.0]), torch.tensor([[2.0]])):
            torch.testing.assert_close(full(x * one), torch.arange(6.0).view(3, 2) * 2)
        assert (x * torch.tensor([[[2.0]]])).shape == (1, 3, 2)
        total = torch.zeros(1)
        total += x.sum()
        assert type(total) is torch.Tensor and not weft.is_dtensor(total) and total.item() == 15
        with pytest.raises(ValueError, match=MIXED):
            x * torch.ones(2)

    on_ranks(program)


def write_slice(buffer, value):
    buffer[:, 1:3] = value


def write_positions(buffer, value):
    buffer[:, torch.tensor([1, 3])] = value


WRITES = {
    "setitem": write_slice,
    "index_put_": write_positions,
    "index_copy_": lambda buffer, value: buffer.index_copy_(1, torch.tensor([0, 2]), value),
    "copy_": lambda buffer, value: buffer[:, 2:].copy_(value),
    "add_": lambda buffer, value: buffer[:, :2].add_(value, alpha=2),
    "out": lambda buffer, value: torch.mul(value, 3, out=buffer[:, :2]),
    "scatter_": lambda buffer, value: buffer.scatter_(1, torch.tensor([[0, 1], [2, 3], [1, 0]]), value),
    "masked_fill_": lambda buffer, value: buffer.masked_fill_(torch.eye(3, 4).bool(), value.sum()),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("placement", [Replicate(), Shard(0), Shard(1)])
def test_a_result_is_stored_in_a_plain_buffer_on_every_rank(write, placement):
    value, want = torch.arange(6.0).view(3, 2), torch.zeros(3, 4)
    WRITES[write](want, value)

    def program(mesh):
        got = torch.zeros(3, 4)
        with weft.replicate_plain():
            WRITES[write](got, weft.distribute_tensor(value, mesh, [placement]))
        assert not weft.is_dtensor(got)
        torch.testing.assert_close(got, want)

    on_ranks(program)


def test_the_error_for_a_plain_buffer_says_how():
    def program(mesh):
        x = weft.distribute_tensor(torch.ones(3, 2), mesh, [Shard(0)])
        with pytest.raises(ValueError, match=MIXED + r".*Distribute it with distribute_tensor.*or store full_tensor\(\) in it"):
            torch.zeros(3, 2).copy_(x)

    on_ranks(program)


def test_gradients_flow_through_a_plain_buffer():
    def loss_of(w, make):
        buffer = make(torch.zeros(3, 4))
        buffer[:, :2] = w
        buffer[:, 2:] = w * 2
        return (buffer * torch.arange(4.0)).square().sum()

    w = torch.arange(6.0).view(3, 2).requires_grad_()
    loss_of(w, lambda t: t).backward()

    def program(mesh):
        for placement in (Replicate(), Shard(0), Shard(1)):
            shared = weft.distribute_tensor(w.detach(), mesh, [placement]).requires_grad_()
            with weft.replicate_plain():
                loss_of(shared, lambda t: t).backward()
            assert shared.grad.placements == (placement,)
            torch.testing.assert_close(full(shared.grad), w.grad)

    on_ranks(program)


def test_values_of_replicated_tensors_are_read_as_lists_and_arrays():
    def program(mesh):
        x = torch.arange(6.0).view(3, 2)
        shared = weft.distribute_tensor(x, mesh, [Replicate()])
        assert shared.tolist() == x.tolist() and shared[1, 1].tolist() == 3.0 and shared[1, 1].item() == 3.0
        assert np.array_equal(shared.numpy(), x.numpy()) and np.array_equal(np.asarray(shared), x.numpy())
        assert np.asarray(shared, dtype=np.int64).dtype == np.int64
        with pytest.raises(RuntimeError, match="requires grad"):
            shared.clone().requires_grad_().numpy()
        for other in (weft.distribute_tensor(x, mesh, [Shard(0)]), weft.from_local(x, mesh, [weft.Partial()])):
            for read in (lambda t: t.tolist(), lambda t: t.numpy(), np.asarray):
                with pytest.raises(RuntimeError, match=r"a replicated tensor is required.*Use full_tensor\(\)"):
                    read(other)
        assert x.tolist() == x.numpy().tolist()

    on_ranks(program)


def test_torch_manual_seed_seeds_distributed_tensors_on_any_mesh():
    def drawn(mesh, placement):
        torch.manual_seed(5)
        return weft.randn(4, 6, device_mesh=mesh, placements=[placement]).full_tensor()

    def program(mesh):
        first = drawn(mesh, Shard(0))
        assert torch.equal(first, drawn(mesh, Shard(1))) and torch.equal(first, drawn(mesh, Replicate()))
        weft.manual_seed(5)
        assert torch.equal(first, weft.randn(4, 6, device_mesh=mesh, placements=[Shard(0)]).full_tensor())
        torch.manual_seed(-1)
        assert not torch.equal(first, weft.randn(4, 6, device_mesh=mesh, placements=[Shard(0)]).full_tensor())
        return first

    first, second = on_ranks(program)
    assert torch.equal(first, second)
    assert torch.manual_seed(3) is torch.default_generator and torch.initial_seed() == 3
    one = torch.rand(2)
    torch.random.manual_seed(3)
    assert torch.equal(one, torch.rand(2))


def test_debug_mode_compares_the_seeds_of_ranks():
    def program(mesh):
        weft.manual_seed(mesh.get_local_rank())
        with weft.debug(), pytest.raises(RuntimeError, match="random numbers of seed 0, call 0\nand rank 1 calls"):
            weft.randn(4, device_mesh=mesh, placements=[Shard(0)])

    on_ranks(program)


def test_a_compiled_model_has_the_contract_and_plain_modules_stay_as_they_are():
    model = Model()
    want = model(tokens()).detach()
    torch.testing.assert_close(torch.compile(model, backend="eager")(tokens()), want)

    def program(mesh):
        shared = parallel(model, mesh)
        torch.testing.assert_close(full(shared(tokens())), want)

    on_ranks(program)
    torch.testing.assert_close(torch.compile(copy.deepcopy(model), backend="eager")(tokens()), want)
    mesh = weft.init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))
    torch.testing.assert_close(full(torch.compile(parallel(model, mesh), backend="eager")(tokens())), want)
