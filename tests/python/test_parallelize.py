"""parallelize_module: styles with PyTorch's signatures, plans with wildcards, tied weights, plain and distributed outputs."""

import copy

import pytest
import torch
import torch.distributed.tensor.parallel
import torch.nn.functional as F
import weft
from torch import nn
from weft import ColwiseParallel, Replicate, RowwiseParallel, SequenceParallel, Shard

torch.manual_seed(5)


class Attention(nn.Module):
    def __init__(self, dim=16, heads=4, kv_heads=4):
        super().__init__()
        self.head_dim = dim // heads
        self.groups = heads // kv_heads
        self.wq, self.wo = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.wk, self.wv = nn.Linear(dim, kv_heads * self.head_dim), nn.Linear(dim, kv_heads * self.head_dim)

    def forward(self, x):
        q, k, v = (w(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.groups > 1)
        return self.wo(y.transpose(1, 2).flatten(-2))


class Model(nn.Module):
    def __init__(self, **attention):
        super().__init__()
        self.tokens = nn.Embedding(24, 16)
        self.layers = nn.ModuleList(
            nn.ModuleDict({"norm": nn.LayerNorm(16), "attention": Attention(**attention)}) for _ in range(2)
        )
        self.output = nn.Linear(16, 24, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens)
        for layer in self.layers:
            x = x + layer["attention"](layer["norm"](x))
        return self.output(x)


TOKENS = torch.randint(24, (4, 6))
PLAN = {
    "tokens": RowwiseParallel(use_local_output=False),
    "layers.*.attention.w[qkv]": ColwiseParallel(use_local_output=False),
    "layers.*.attention.wo": RowwiseParallel(use_local_output=False),
    "output": ColwiseParallel(use_local_output=False),
}
SEQUENCE_PLAN = PLAN | {
    "tokens": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    "layers.*.norm": SequenceParallel(),
    "layers.*.attention.wo": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
}


def on_mesh(shape, program, names=None):
    names = names or ("dp", "tp")[-len(shape) :]

    def run(rank):
        return program(weft.init_device_mesh("cpu", shape, mesh_dim_names=names))

    return weft.run_on_ranks(int(torch.tensor(shape).prod()), run)


def gradients(model, tokens):
    loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    return loss, {name: parameter.grad for name, parameter in model.named_parameters()}


def expect_the_same(model, tokens, plain):
    expected_loss, expected = gradients(copy.deepcopy(plain), TOKENS)
    loss, computed = gradients(model, tokens)
    torch.testing.assert_close(loss.full_tensor(), expected_loss)
    for name, parameter in model.named_parameters():
        assert parameter.grad.placements == parameter.placements, name
        torch.testing.assert_close(computed[name].full_tensor(), expected[name], msg=name)


def batch(mesh):
    return weft.distribute_tensor(TOKENS, mesh, [Shard(0), Replicate()][-mesh.ndim :] if mesh.ndim > 1 else None)


@pytest.mark.parametrize("shape", [(1,), (2,), (4,), (2, 2)])
@pytest.mark.parametrize("plan", [PLAN, SEQUENCE_PLAN], ids=["whole", "sequence"])
def test_loss_and_gradients_are_those_of_one_device(shape, plan):
    plain = Model()

    def program(mesh):
        model = weft.parallelize_module(copy.deepcopy(plain), mesh, plan)
        expect_the_same(model, batch(mesh), plain)

    on_mesh(shape, program)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_fewer_key_heads_than_ranks_are_on_every_rank(kv_heads):
    plain = Model(kv_heads=kv_heads)
    plan = {
        "layers.*.attention.wq": {"style": "colwise", "heads": 4},
        "layers.*.attention.w[kv]": {"style": "colwise", "heads": kv_heads},
        "layers.*.attention.wo": {"style": "rowwise", "heads": 4},
    }

    def program(mesh):
        model = weft.parallelize_module(copy.deepcopy(plain), mesh, plan)
        attention = model.layers[0]["attention"]
        assert attention.wq.weight.placements == (Shard(0),)
        assert attention.wk.weight.placements == (Replicate(),)
        expect_the_same(model, batch(mesh), plain)

    on_mesh((4,), program)


def test_a_head_count_that_does_not_divide_names_the_entry():
    plan = {"layers.*.attention.wq": ColwiseParallel(heads=4)}

    def program(mesh):
        with pytest.raises(ValueError, match=r'plan entry "layers.\*.attention.wq" for module "layers.0.attention.wq"'):
            weft.parallelize_module(Model(), mesh, plan)

    on_mesh((3,), program)


def test_tied_weights_stay_tied():
    plain = Model()
    plain.output.weight = plain.tokens.weight

    def program(mesh):
        model = weft.parallelize_module(copy.deepcopy(plain), mesh, PLAN)
        assert model.output.weight is model.tokens.weight
        assert model.output.weight.placements == (Shard(0),)
        assert len(list(model.parameters())) == len(list(plain.parameters()))
        expect_the_same(model, batch(mesh), plain)

    on_mesh((2,), program)


def test_what_is_tied_and_not_named_stays_tied():
    plain = Model()
    plain.output.weight = plain.tokens.weight

    def program(mesh):
        model = weft.parallelize_module(copy.deepcopy(plain), mesh, {"output": "colwise"})
        assert model.tokens.weight is model.output.weight
        replicated = weft.distribute_module(copy.deepcopy(plain), mesh)
        assert replicated.tokens.weight is replicated.output.weight

    on_mesh((2,), program)


def test_plain_outputs_leave_the_rest_of_the_model_plain():
    plain = nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    x = torch.randn(3, 8)

    def program(mesh):
        model = weft.parallelize_module(copy.deepcopy(plain), mesh, {"1": ColwiseParallel(), "3": RowwiseParallel()})
        assert not weft.is_dtensor(model[0].weight)
        result = model(x)
        assert not weft.is_dtensor(result)
        torch.testing.assert_close(result, plain(x))
        result.sum().backward()
        reference = copy.deepcopy(plain)
        reference(x).sum().backward()
        torch.testing.assert_close(model[0].weight.grad, reference[0].weight.grad)
        torch.testing.assert_close(model[1].weight.grad.full_tensor(), reference[1].weight.grad)

    on_mesh((2,), program)


def test_prepared_inputs_and_outputs():
    class Sum(nn.Module):
        def forward(self, x, scale, y=None):
            return x * scale, x + y

    def program(mesh):
        x = torch.arange(8.0).view(2, 4)
        style = weft.PrepareModuleInputOutput(
            input_layouts=(Shard(0), None),
            desired_input_layouts=(Replicate(), None),
            input_kwarg_layouts={"y": Replicate()},
            desired_input_kwarg_layouts={"y": Replicate()},
            output_layouts=(Replicate(), Replicate()),
            desired_output_layouts=(Shard(1), Replicate()),
        )
        module = weft.parallelize_module(Sum(), mesh, style)
        mine = x[mesh.get_rank() : mesh.get_rank() + 1]
        first, second = module(mine, 2, y=x)
        torch.testing.assert_close(first, (2 * x).chunk(2, 1)[mesh.get_rank()])
        torch.testing.assert_close(second, 2 * x)

        inside = []
        watcher = nn.Identity()
        watcher.register_forward_hook(lambda of, inputs, output: inside.append(inputs[0]))
        prepared = weft.parallelize_module(
            nn.Sequential(watcher),
            mesh,
            weft.PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Replicate(), use_local_output=True),
        )
        prepared(mine)
        assert not weft.is_dtensor(inside[0])
        torch.testing.assert_close(inside[0], x)
        out = weft.parallelize_module(
            nn.Identity(), mesh, weft.PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=Replicate())
        )
        torch.testing.assert_close(out(mine), x)

    on_mesh((2,), program)


def test_layouts_must_come_in_pairs():
    with pytest.raises(ValueError, match="input_layouts and desired_input_layouts must be as many, but got 1 and 0"):
        weft.PrepareModuleInput(input_layouts=Shard(0))
    with pytest.raises(ValueError, match="must name the same arguments"):
        weft.PrepareModuleInput(input_kwarg_layouts={"x": Shard(0)})


def test_a_style_may_be_given_for_the_module_itself_and_with_placements_of_torch():
    from torch.distributed.tensor import Shard as TorchShard

    def program(mesh):
        linear = weft.parallelize_module(nn.Linear(4, 6), mesh, ColwiseParallel(output_layouts=TorchShard(-1)))
        assert linear.weight.placements == (Shard(0),)
        assert linear(torch.ones(2, 4)).shape == (2, 3)

    on_mesh((2,), program)


def test_a_pattern_without_a_match_lists_the_nearest_names():
    def program(mesh):
        with pytest.raises(ValueError, match=r"matches none. The nearest are: .*layers.\*.attention.wo"):
            weft.parallelize_module(Model(), mesh, {"layers.*.attn.wo": RowwiseParallel()})
        with pytest.raises(ValueError, match="one style per module is required"):
            weft.parallelize_module(Model(), mesh, {"*": "replicate", "output": "colwise"})

    on_mesh((1,), program)


def test_a_plan_is_required_and_its_styles_are_wefts():
    def program(mesh):
        with pytest.raises(ValueError, match="a plan is required"):
            weft.parallelize_module(nn.Linear(2, 2), mesh)
        with pytest.raises(TypeError, match="the style of '' must be one of weft's"):
            weft.parallelize_module(nn.Linear(2, 2), mesh, 3)

    on_mesh((1,), program)


def test_plans_come_from_files(tmp_path):
    path = tmp_path / "plan.json"
    path.write_text('{"": {"style": "colwise", "output": "R"}}')

    def program(mesh):
        assert weft.parallelize_module(nn.Linear(4, 6), mesh, path).weight.placements == (Shard(0),)
        assert weft.parallelize_module(nn.Linear(4, 6), mesh, weft.ParallelPlan.load(str(path))).bias.placements == (Shard(0),)

    on_mesh((2,), program)
    assert '"style": "colwise"' in str(weft.ParallelPlan.load(str(path)))


def test_on_a_mesh_of_several_dims_tensors_are_distributed():
    def program(mesh):
        with pytest.raises(ValueError, match="use_local_output=False"):
            weft.parallelize_module(nn.Linear(4, 6), mesh, ColwiseParallel())
        linear = weft.parallelize_module(nn.Linear(4, 6), mesh, ColwiseParallel(use_local_output=False), mesh_dim="dp")
        assert linear.weight.placements == (Shard(0), Replicate())
        with pytest.raises(ValueError, match="a distributed tensor is required on a mesh of several dims"):
            linear(torch.ones(2, 4))

    on_mesh((2, 2), program)


def test_styles_are_values():
    assert ColwiseParallel() == ColwiseParallel()
    assert ColwiseParallel() != RowwiseParallel()
    assert repr(SequenceParallel()) == "SequenceParallel(style='sequence', dim=1, local_output=False)"


@pytest.mark.parametrize("shape", [(2,), (2, 2)])
def test_a_model_without_memory_is_made_parallel_and_then_gets_its_values(shape):
    torch.manual_seed(7)
    plain = Model()

    def program(mesh):
        with torch.device("meta"):
            model = Model()
        weft.parallelize_module(model, mesh, SEQUENCE_PLAN)
        weft.materialize(model, seed=7)
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter.full_tensor(), dict(plain.named_parameters())[name]), name
        expect_the_same(model, batch(mesh), plain)

    on_mesh(shape, program)


class Rows(weft.ParallelStyle):
    """A style of a user, as those of torch: all is done by _apply."""

    def __init__(self):
        self.seen = []

    def _apply(self, module, device_mesh):
        self.seen.append(module)
        module.weight = nn.Parameter(weft.distribute_tensor(module.weight, device_mesh, [Shard(0)]))
        return module


class OfTorch(torch.distributed.tensor.parallel.ParallelStyle):
    def _apply(self, module, device_mesh):
        return Rows()._apply(module, device_mesh)


class Noting(ColwiseParallel):
    def _apply(self, module, device_mesh):
        module.noted = True
        return super()._apply(module, device_mesh)


def test_styles_of_users_are_applied():
    def rank(_):
        mesh = weft.init_device_mesh("cpu", (2,))
        model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
        style = Rows()
        weft.parallelize_module(model, mesh, {"*": style})
        assert style.seen == list(model)
        assert all(layer.weight.placements == (Shard(0),) for layer in model)
        assert not weft.is_dtensor(model[0].bias)  # a plan of such styles alone changes nothing else
        alone = weft.parallelize_module(nn.Linear(4, 4), mesh, OfTorch())
        assert alone.weight.placements == (Shard(0),)
        with pytest.raises(ValueError, match="every pattern of a plan must match a module, but 'x' matches none"):
            weft.parallelize_module(nn.Linear(4, 4), mesh, {"x": Rows()})

    weft.run_on_ranks(2, rank)


def test_styles_of_users_stand_beside_others():
    whole = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4))

    def rank(_):
        mesh = weft.init_device_mesh("cpu", (2,))
        model = copy.deepcopy(whole)
        weft.parallelize_module(model, mesh, {"0": Noting(), "1": RowwiseParallel(use_local_output=False), "2": Rows()})
        assert model[0].noted
        assert [layer.weight.placements for layer in model] == [(Shard(0),), (Shard(1),), (Shard(0),)]
        assert model[2].bias.placements == (Replicate(),)
        x = torch.ones(2, 4)
        torch.testing.assert_close(model(x).full_tensor(), whole(x))

    weft.run_on_ranks(2, rank)


def test_styles_of_users_are_not_for_programs():
    with pytest.raises(TypeError, match="one of your own, with _apply"):
        weft._parallel.parallelize.plan_from({"0": Rows()})


class Stack(nn.Module):
    """A block, whose norm is between its linears, inside of a model."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.block = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
        self.norm = nn.LayerNorm(8)
        self.register_buffer("shift", torch.arange(8.0))

    def forward(self, x):
        return self.norm(self.block(self.first(x)) + self.shift)


@pytest.mark.parametrize("gives_plain", [False, True])
def test_a_submodule_first_and_then_the_module_around_it(gives_plain):
    plain = Stack()
    x = torch.randn(4, 8)
    expected = plain(x)
    expected.square().sum().backward()

    def program(mesh):
        model = copy.deepcopy(plain)
        model.zero_grad()
        block = {"0": ColwiseParallel(use_local_output=gives_plain), "2": RowwiseParallel(use_local_output=gives_plain)}
        weft.parallelize_module(model.block, mesh, block)
        first = model.block[0].weight
        weft.parallelize_module(
            model, mesh, {"first": ColwiseParallel(use_local_output=False)}, replicate_plain=True
        )
        assert model.block[0].weight is first and first.placements == (Shard(0),)
        assert model.block[2].weight.placements == (Shard(1),)
        assert model.first.weight.placements == (Shard(0),)
        assert model.norm.weight.placements == (Replicate(),) and weft.is_dtensor(model.shift)
        loss = model(weft.distribute_tensor(x, mesh)).square().sum()
        loss.backward()
        torch.testing.assert_close(weft.full_tensor(loss), expected.square().sum())
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.grad.full_tensor(), plain.get_parameter(name).grad, msg=name)

    on_mesh((2,), program)


def test_a_later_plan_may_not_lay_out_otherwise_what_an_earlier_one_did():
    def program(mesh):
        model = Stack()
        weft.parallelize_module(model.block, mesh, {"0": ColwiseParallel(use_local_output=False)})
        with pytest.raises(ValueError, match="one that is distributed as asked, but got .* for {S\\(1\\)}"):
            weft.parallelize_module(model, mesh, {"block.0": RowwiseParallel(use_local_output=False)})

    on_mesh((2,), program)


class NormBetween(nn.Module):
    """A norm and a buffer between linears, which see plain shards if the linears give out plain tensors."""

    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(8, 16), nn.LayerNorm(8), nn.Linear(16, 8)
        self.scale = nn.Module()
        self.scale.register_buffer("by", torch.tensor([2.0] * 8))

    def forward(self, x):
        heads = self.up(x).unflatten(-1, (-1, 8))
        return self.down((self.norm(heads) * self.scale.by).flatten(-2))


def test_what_an_earlier_plan_left_plain_stays_plain():
    plain = nn.Sequential(nn.Linear(8, 8), NormBetween())
    x = torch.randn(4, 8)

    def program(mesh):
        model = copy.deepcopy(plain)
        weft.parallelize_module(model[1], mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
        assert not weft.is_dtensor(model[1].norm.weight) and not weft.is_dtensor(model[1].scale.by)
        weft.parallelize_module(model, mesh, {"0": ColwiseParallel(use_local_output=False)})
        assert not weft.is_dtensor(model[1].norm.weight) and not weft.is_dtensor(model[1].scale.by)
        torch.testing.assert_close(model(weft.distribute_tensor(x, mesh)), plain(x))

        # Plain tensors in the model may be shards.
        with pytest.raises(ValueError, match="cannot be mixed"):
            model[0](weft.distribute_tensor(x, mesh)) * torch.ones(8)
        model[0].register_forward_hook(lambda of, inputs, output: output * torch.ones(8))
        with pytest.raises(ValueError, match="cannot be mixed"):
            model(weft.distribute_tensor(x, mesh))

    on_mesh((2,), program)
