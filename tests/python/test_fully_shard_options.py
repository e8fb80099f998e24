"""What ordinary code does around a fully sharded model: the same as around a plain one."""

import copy

import pytest
import torch
import weft
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.nn import functional as F
from weft import RaggedShard, Replicate, Shard

RANKS, DIM, ROWS = 2, 12, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 17)
        self.down = nn.Linear(17, DIM)
        self.kept = None

    def forward(self, x):
        hidden = self.up(self.norm(x))
        self.kept = hidden.float().square().mean()
        return x + self.down(F.gelu(hidden))


class Model(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(5, DIM), Block(), Block(), nn.Linear(DIM, 3))


torch.manual_seed(1)
MODEL = Model()
X, TARGET = torch.randn(ROWS, 5), torch.randn(ROWS, 3)


def sharded(model, mesh, **options):
    for block in list(model)[1:3]:
        weft.fully_shard(block, mesh, **options)
    return weft.fully_shard(model, mesh, **options)


def on_mesh(program, ranks=RANKS):
    return weft.run_on_ranks(ranks, lambda rank: program(weft.init_device_mesh("cpu", (ranks,), mesh_dim_names=("dp",))))


def own(tensor, mesh):
    return tensor.chunk(mesh.size())[mesh.get_local_rank()]


def loss_of(model, x, target):
    return F.mse_loss(model(x).float(), target)


def gradients(model):
    return {
        name: p.grad.full_tensor() if weft.is_dtensor(p.grad) else p.grad
        for name, p in model.named_parameters()
        if p.grad is not None
    }


def expect_same(given, expected, **tolerances):
    assert given.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(given[name], expected[name], **(tolerances or {"rtol": 1e-4, "atol": 1e-6}))


def averaged(compute):
    """The average over chunks of the batch of what `compute(model, x, target)` leaves as gradients."""
    model = copy.deepcopy(MODEL)
    for x, target in zip(X.chunk(RANKS), TARGET.chunk(RANKS)):
        compute(model, x, target)
    return {name: p.grad / RANKS for name, p in model.named_parameters()}


@pytest.mark.parametrize("reduce_dtype", [torch.float32, torch.bfloat16])
def test_mixed_precision(reduce_dtype):
    def in_half(model, x, target):
        half = {name: p.to(torch.bfloat16) for name, p in model.named_parameters()}
        F.mse_loss(torch.func.functional_call(model, half, x.to(torch.bfloat16)).float(), target).backward()

    expected = averaged(in_half)

    def program(mesh):
        model = copy.deepcopy(MODEL)
        for block in list(model)[1:3]:
            weft.fully_shard(block, mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, reduce_dtype))
        weft.fully_shard(model, mesh, mp_policy=MixedPrecisionPolicy(torch.bfloat16, reduce_dtype, torch.float32))
        output = model(own(X, mesh))
        assert output.dtype == torch.float32
        F.mse_loss(output, own(TARGET, mesh)).backward()
        assert all(p.dtype == p.grad.dtype == torch.float32 for p in model.parameters())
        expect_same(gradients(model), expected, rtol=2e-2, atol=5e-4)  # of bfloat16

    on_mesh(program)


def test_autocast():
    def under_autocast(model, x, target):
        with torch.autocast("cpu", torch.bfloat16):
            loss = loss_of(model, x, target)
        loss.backward()

    expected = averaged(under_autocast)

    def program(mesh):
        model = sharded(copy.deepcopy(MODEL), mesh)
        under_autocast(model, own(X, mesh), own(TARGET, mesh))
        expect_same(gradients(model), expected, rtol=2e-2, atol=2e-4)

    on_mesh(program)


def test_deferred_initialisation_makes_shards_alone():
    torch.manual_seed(7)
    expected = {name: p.detach() for name, p in Model().named_parameters()}

    def program(mesh):
        with torch.device("meta"):
            model = Model()
        sharded(model, mesh)
        assert all(p.is_meta for p in model.parameters())
        weft.materialize(model, 7)
        expect_same({name: p.full_tensor().detach() for name, p in model.named_parameters()}, expected, rtol=0, atol=0)
        loss_of(model, own(X, mesh), own(TARGET, mesh)).backward()
        assert all(p.grad is not None for p in model.parameters())

    on_mesh(program)


def test_state_dicts():
    def program(mesh):
        model, other = (sharded(copy.deepcopy(MODEL), mesh) for _ in range(2))
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1.5)
        state = model.state_dict()
        assert list(state) == list(MODEL.state_dict())
        assert all(isinstance(value.placements[0], RaggedShard) for value in state.values())
        for assign in (False, True):
            with torch.no_grad():
                for p in other.parameters():
                    p.zero_()
            other(own(X, mesh))
            other.load_state_dict({name: value.clone() for name, value in state.items()}, assign=assign)
            if not assign:
                torch.testing.assert_close(other(own(X, mesh)), model(own(X, mesh)))
        optimizer = torch.optim.AdamW(model.parameters())
        loss_of(model, own(X, mesh), own(TARGET, mesh)).backward()
        optimizer.step()
        assert optimizer.state[model[0].weight]["exp_avg"].placements == model[0].weight.placements

    on_mesh(program)


def test_a_view_of_a_shard_from_before_the_first_forward_stays_one():
    def program(mesh):
        model = sharded(copy.deepcopy(MODEL), mesh)
        state = model.state_dict()
        model(own(X, mesh))
        for value in state.values():
            value.zero_()
        assert all(not p.full_tensor().any() for p in model.parameters())
        assert not model(own(X, mesh)).any()

    on_mesh(program)


@pytest.mark.parametrize("is_made_there", [False, True])
def test_a_first_forward_in_inference_mode(is_made_there):
    def program(mesh):
        model = copy.deepcopy(MODEL)
        if not is_made_there:
            sharded(model, mesh)
        with torch.inference_mode():
            if is_made_there:
                sharded(model, mesh)
            model(own(X, mesh))
        assert not any(p.is_inference() for p in model.parameters())
        sum(p.square().sum() for p in model.parameters()).backward()
        expect_same(gradients(model), {name: 2 * p.detach() for name, p in MODEL.named_parameters()})
        loss_of(model, own(X, mesh), own(TARGET, mesh)).backward()

    on_mesh(program)


def test_parameters_that_were_loaded_in_inference_mode():
    def program(mesh):
        model, other = (sharded(copy.deepcopy(MODEL), mesh) for _ in range(2))
        with torch.inference_mode():
            model.load_state_dict({name: value.clone() for name, value in other.state_dict().items()}, assign=True)
            torch.testing.assert_close(model(own(X, mesh)), other(own(X, mesh)))
            torch.testing.assert_close(model(own(X, mesh)), other(own(X, mesh)))

    on_mesh(program)


def test_state_dicts_have_the_shards_while_parameters_are_gathered():
    def program(mesh):
        model = sharded(copy.deepcopy(MODEL), mesh)
        expected = model.state_dict()

        def expect_shards(state, prefix=""):
            for name, value in state.items():
                assert value.placements == expected[prefix + name].placements
                assert value.to_local().data_ptr() == expected[prefix + name].to_local().data_ptr()

        model.unshard()
        model[1].unshard()
        state = model.state_dict()
        expect_shards(state)
        expect_shards(model[1].up.state_dict(), "1.up.")
        assert all(isinstance(value, nn.Parameter) for value in model.state_dict(keep_vars=True).values())
        assert not any(isinstance(value, nn.Parameter) for value in state.values())
        assert not weft.is_dtensor(model[1].up.weight)  # it is gathered still
        model.reshard()
        model[1].reshard()
        expect_shards(state)
        expect_shards(model.state_dict())
        seen = []
        model[2].register_forward_hook(lambda *_: seen.append(model.state_dict()))
        model(own(X, mesh))
        expect_shards(seen[0])

    on_mesh(program)


def test_unshard_and_reshard():
    def program(mesh):
        model = sharded(copy.deepcopy(MODEL), mesh)
        block = model[1]
        block.unshard()
        assert torch.equal(block.up.weight, MODEL[1].up.weight) and not weft.is_dtensor(block.up.weight)
        assert weft.is_dtensor(model[2].up.weight)
        block.reshard()
        assert weft.is_dtensor(block.up.weight)
        handle = block.unshard(async_op=True)
        handle.wait()
        assert not weft.is_dtensor(block.up.weight)
        block.reshard()
        model.set_modules_to_forward_prefetch([model[1], model[2]])
        model[2].set_modules_to_backward_prefetch([model[1]])
        loss_of(model, own(X, mesh), own(TARGET, mesh)).backward()
        assert all(weft.is_dtensor(p) for p in model.parameters())

    on_mesh(program)


@pytest.mark.parametrize("scope", [torch.no_grad, torch.inference_mode])
def test_evaluation(scope):
    expected = copy.deepcopy(MODEL)(X).detach()

    def program(mesh):
        model = sharded(copy.deepcopy(MODEL), mesh).eval()
        for _ in range(3):
            with scope():
                torch.testing.assert_close(model(own(X, mesh)), own(expected, mesh))
        loss_of(model, own(X, mesh), own(TARGET, mesh)).backward()
        assert all(p.grad is not None for p in model.parameters())

    on_mesh(program)


def test_a_result_that_a_module_keeps_is_differentiated():
    def with_kept(model, x, target):
        (loss_of(model, x, target) + model[1].kept + model[2].kept).backward()

    expected = averaged(with_kept)

    def program(mesh):
        model = sharded(copy.deepcopy(MODEL), mesh)
        with_kept(model, own(X, mesh), own(TARGET, mesh))
        expect_same(gradients(model), expected)
        model.zero_grad()
        # Alone: only some of the parameters have gradients.
        model(own(X, mesh))
        model[1].kept.backward()
        assert model[2].up.weight.grad is None and model[1].down.weight.grad is None
        assert model[1].up.weight.grad is not None and model[0].weight.grad is not None

    on_mesh(program)


def test_a_forward_that_raises_can_be_repeated():
    expected = averaged(lambda model, x, target: loss_of(model, x, target).backward())

    def program(mesh):
        model = sharded(copy.deepcopy(MODEL), mesh)
        with pytest.raises(RuntimeError):
            model(torch.randn(3, 4))
        assert all(weft.is_dtensor(p) for p in model.parameters())
        loss_of(model, own(X, mesh), own(TARGET, mesh)).backward()
        expect_same(gradients(model), expected)

    on_mesh(program)


def test_hooks_and_other_kinds_of_backward():
    expected = averaged(lambda model, x, target: loss_of(model, x, target).backward())

    def program(mesh):
        model = sharded(copy.deepcopy(MODEL), mesh)
        seen = []
        model[1].up.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad is not None))
        model[2].up.weight.register_hook(lambda gradient: gradient * 2)
        loss = loss_of(model, own(X, mesh), own(TARGET, mesh))
        loss.backward(retain_graph=True)
        doubled = {name: g / 2 if name == "2.up.weight" else g for name, g in gradients(model).items()}
        expect_same(doubled, expected)
        assert seen == [True]
        loss.backward()  # once more
        expect_same(
            {name: g / 2 if name == "2.up.weight" else g for name, g in gradients(model).items()},
            {name: 2 * g for name, g in expected.items()},
        )
        loss = loss_of(model, own(X, mesh), own(TARGET, mesh))
        of_first, of_norm = torch.autograd.grad(loss, [model[0].weight, model[1].norm.bias])
        torch.testing.assert_close(of_first.full_tensor(), expected["0.weight"], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(of_norm.full_tensor(), expected["1.norm.bias"], rtol=1e-4, atol=1e-6)

    on_mesh(program)


def test_recurrent_layers():
    torch.manual_seed(3)
    of_one = nn.LSTM(4, 6, 2, batch_first=True)
    x = torch.randn(4, 5, 4)
    of_one(x)[0].square().mean().backward()
    expected = {name: p.grad.clone() for name, p in of_one.named_parameters()}
    of_one.zero_grad()

    def program(mesh):
        model = weft.fully_shard(copy.deepcopy(of_one), mesh)
        model(own(x, mesh))[0].square().mean().backward()
        expect_same(gradients(model), expected)

    on_mesh(program)


def test_an_outer_module_without_parameters_of_its_own():
    torch.manual_seed(5)
    of_one = nn.Sequential(*(nn.Linear(6, 6) for _ in range(4)))
    x = torch.randn(4, 6)
    of_one(x).square().mean().backward()
    expected = {name: p.grad.clone() for name, p in of_one.named_parameters()}
    of_one.zero_grad()

    def program(mesh):
        model = copy.deepcopy(of_one)
        for linear in model:
            weft.fully_shard(linear, mesh)
        weft.fully_shard(model, mesh)
        for _ in range(3):
            model.zero_grad()
            model(own(x, mesh)).square().mean().backward()
            expect_same(gradients(model), expected)

    on_mesh(program)


def test_ignored_parameters_stay():
    def program(mesh):
        model = copy.deepcopy(MODEL)
        weft.fully_shard(model, mesh, ignored_params={model[0].bias})
        assert not weft.is_dtensor(model[0].bias) and weft.is_dtensor(model[0].weight)
        loss_of(model, own(X, mesh), own(TARGET, mesh)).backward()
        assert not weft.is_dtensor(model[0].bias.grad)

    on_mesh(program)


def test_misuse():
    def program(mesh):
        model = sharded(copy.deepcopy(MODEL), mesh)
        with pytest.raises(ValueError, match="a module is fully sharded once"):
            weft.fully_shard(model, mesh)
        with pytest.raises(NotImplementedError, match="a module is copied before it is fully sharded"):
            copy.deepcopy(model)
        with pytest.raises(ValueError, match="a mesh dim of mesh.* is required, but got 'tp'"):
            weft.fully_shard(nn.Linear(2, 2), mesh, "tp")
        with pytest.raises(ValueError, match="a number of ranks that divides the size of mesh dim dp, 2, is required"):
            weft.fully_shard(nn.Linear(2, 2), mesh, reshard_after_forward=3)
        with pytest.raises(TypeError, match="an nn.Module or a list of them is required"):
            weft.fully_shard(3, mesh)
        scalar = nn.Linear(2, 2)
        scalar.scale = nn.Parameter(torch.tensor(1.0))
        with pytest.raises(ValueError, match="parameters with a dim to shard are required"):
            weft.fully_shard(scalar, mesh)
        of_tp = nn.Linear(4, 4)
        of_tp.weight = nn.Parameter(weft.distribute_tensor(of_tp.weight.detach(), mesh, [Shard(0)]))
        with pytest.raises(ValueError, match="a parameter that is replicated over mesh dim dp is required"):
            weft.fully_shard(of_tp, mesh)
        loss = loss_of(model, own(X, mesh), own(TARGET, mesh))
        with torch.no_grad():
            model[1].up.weight.mul_(2)
        with pytest.raises(RuntimeError, match="Call backward before the optimizer's step"):
            loss.backward()

    on_mesh(program)


def test_a_batch_that_every_rank_has_is_one_too():
    """In the global view a replicated batch is that batch, and not one per rank."""
    expected = copy.deepcopy(MODEL)
    loss_of(expected, X, TARGET).backward()

    def program(mesh):
        model = sharded(copy.deepcopy(MODEL), mesh)
        x, target = (weft.distribute_tensor(t, mesh, [Replicate()]) for t in (X, TARGET))
        loss_of(model, x, target).backward()
        expect_same(gradients(model), gradients(expected))

    on_mesh(program)
