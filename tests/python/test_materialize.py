"""A module that was built on meta and parallelised gets the values of one device, bit for bit."""

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import weft
from weft import Replicate, Shard

MESHES = {
    "replicated": ((2,), [Replicate()]),
    "rows": ((2,), [Shard(0)]),
    "uneven rows": ((3,), [Shard(0)]),
    "columns": ((2,), [Shard(1)]),
    "rows and columns": ((2, 2), [Shard(0), Shard(1)]),
    "rows twice": ((2, 2), [Shard(0), Shard(0)]),
    "copied rows": ((2, 2), [Replicate(), Shard(0)]),
}


def on_mesh(program, shape=(2,)):
    size = torch.Size(shape).numel()
    return weft.run_on_ranks(size, lambda rank: program(weft.init_device_mesh("cpu", shape)))


def shard_by(placements):
    """A partition_fn that shards every parameter and buffer that has the dims."""

    def fitting(tensor):
        return [p if p.is_replicate() or p.dim < tensor.dim() else Replicate() for p in placements]

    def partition(name, module, mesh):
        for key, parameter in module._parameters.items():
            if parameter is not None:
                sharded = weft.distribute_tensor(parameter.detach(), mesh, fitting(parameter))
                module._parameters[key] = nn.Parameter(sharded, requires_grad=parameter.requires_grad)
        for key, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[key] = weft.distribute_tensor(buffer, mesh, fitting(buffer))

    return partition


def built_on_meta(make, mesh, placements):
    with torch.device("meta"):
        model = make()
    return weft.distribute_module(model, mesh, shard_by(placements))


def reset(module):
    for name in ("reset_parameters", "_reset_parameters"):
        if hasattr(module, name):
            getattr(module, name)()
            return


def expect_same_values(expected, make, shape, placements, seed, **options):
    def program(mesh):
        model = built_on_meta(make, mesh, placements)
        weft.materialize(model, seed, **options)
        for (name, wanted), (_, tensor) in zip(expected.state_dict().items(), model.state_dict().items(), strict=True):
            assert torch.equal(tensor.full_tensor(), wanted), name
            assert tensor.dtype == wanted.dtype
        for wanted, parameter in zip(expected.parameters(), model.parameters(), strict=True):
            assert isinstance(parameter, nn.Parameter) and parameter.requires_grad == wanted.requires_grad
            assert parameter.is_leaf and parameter.device.type == "cpu" and weft.is_dtensor(parameter)

    on_mesh(program, shape)


CONSTRUCTED = {
    "linear": lambda: nn.Linear(5, 37),
    "linear without bias": lambda: nn.Linear(16, 8, bias=False),
    "bilinear": lambda: nn.Bilinear(3, 4, 5),
    "embedding": lambda: nn.Embedding(11, 6),
    "embedding with padding": lambda: nn.Embedding(11, 6, padding_idx=3),
    "layer norm": lambda: nn.LayerNorm((5, 6)),
    "rms norm": lambda: nn.RMSNorm(7),
    "group norm": lambda: nn.GroupNorm(2, 6),
    "batch norm": lambda: nn.BatchNorm2d(5),
    "conv1d": lambda: nn.Conv1d(4, 6, 3),
    "conv2d": lambda: nn.Conv2d(4, 6, 3, groups=2),
    "conv transpose": lambda: nn.ConvTranspose2d(4, 6, 3),
    "prelu": lambda: nn.PReLU(5),
    "lstm": lambda: nn.LSTM(5, 4, num_layers=2),
    "attention": lambda: nn.MultiheadAttention(6, 2),
    "attention of other dims": lambda: nn.MultiheadAttention(6, 2, kdim=5, vdim=7, add_bias_kv=True),
    "encoder layer": lambda: nn.TransformerEncoderLayer(8, 2, dim_feedforward=18),
    "decoder layer": lambda: nn.TransformerDecoderLayer(8, 2, dim_feedforward=18),
    "nested": lambda: nn.Sequential(nn.Linear(3, 5), nn.Sequential(nn.Linear(5, 2), nn.ReLU()), nn.Linear(2, 9)),
}


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", CONSTRUCTED)
def test_values_are_those_of_the_constructor(name, mesh):
    torch.manual_seed(11)
    expected = CONSTRUCTED[name]()
    expect_same_values(expected, CONSTRUCTED[name], *MESHES[mesh], seed=11)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["linear", "embedding", "conv2d", "attention"])
def test_values_of_other_dtypes_too(name, dtype):
    def make():
        return CONSTRUCTED[name]().to(dtype)

    expected = make()
    torch.manual_seed(12)
    expected.apply(reset)
    for mesh in ("rows", "columns"):
        expect_same_values(expected, make, *MESHES[mesh], seed=12)


def test_clones_of_a_layer_are_reset_one_by_one():
    def make():
        return nn.Transformer(8, 2, num_encoder_layers=2, num_decoder_layers=1, dim_feedforward=10)

    expected = make()
    torch.manual_seed(13)
    expected.apply(reset)
    expect_same_values(expected, make, *MESHES["rows and columns"], seed=13)


INITIALISERS = {
    "trunc_normal_": lambda t: nn.init.trunc_normal_(t, std=0.02),
    "trunc_normal_ of many rejections": lambda t: nn.init.trunc_normal_(t, std=1.0, a=-0.5, b=0.5),
    "trunc_normal_ of a tail": lambda t: nn.init.trunc_normal_(t, std=0.5, a=0.4, b=2.0),
    "normal_ of data": lambda t: t.data.normal_(0, 0.02),
    "kaiming_normal_": nn.init.kaiming_normal_,
    "xavier_normal_": nn.init.xavier_normal_,
    "orthogonal_": nn.init.orthogonal_,
    "eye_": nn.init.eye_,
    "constant_": lambda t: nn.init.constant_(t, 0.3),
    "copy of randn": lambda t: t.copy_(torch.randn(t.shape)),
    "copy of a column": lambda t: t.copy_(torch.arange(9.0)[:, None]),
    "randn_like": lambda t: t.copy_(torch.randn_like(t)),
    "normal of a mean": lambda t: t.copy_(torch.normal(torch.ones_like(t), 0.5)),
    "fill of a row": lambda t: (t[1].fill_(3.0), t[2:].uniform_()),
    "rows at once": lambda t: (t[:4].normal_(), t[4:].uniform_()),
}


@pytest.mark.parametrize("name", INITIALISERS)
def test_an_initialiser_of_ones_own(name):
    def init(module):
        module.weight.zero_()
        INITIALISERS[name](module.weight)

    expected = nn.Linear(6, 9, bias=False)
    torch.manual_seed(14)
    with torch.no_grad():
        init(expected)
    for mesh in ("replicated", "rows", "uneven rows", "columns", "rows and columns"):
        expect_same_values(expected, lambda: nn.Linear(6, 9, bias=False), *MESHES[mesh], seed=14, init_fn=init)


class Scale(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.register_buffer("table", torch.arange(size))

    def forward(self, x):
        return x * self.weight + self.table


def test_what_is_left_without_values_is_an_error_that_names_it():
    def program(mesh):
        model = built_on_meta(lambda: nn.Sequential(nn.Linear(2, 4), nn.Sequential(Scale(4))), mesh, [Shard(0)])
        with pytest.raises(
            ValueError,
            match=r"nothing was written to 1\.0\.weight of Scale, 1\.0\.table of Scale\. What a constructor computes is lost",
        ):
            weft.materialize(model, 1)

    on_mesh(program)


def test_an_attribute_that_stays_on_meta_is_an_error():
    def program(mesh):
        model = built_on_meta(lambda: nn.Linear(2, 4), mesh, [Shard(0)])
        model.table = torch.empty(3, device="meta")
        with pytest.raises(ValueError, match="nothing was written to table of Linear"):
            weft.materialize(model, 1)

    on_mesh(program)


def test_init_fn_may_leave_modules_to_their_reset_parameters():
    def init(module):
        if not isinstance(module, Scale):
            return NotImplemented
        module.weight.fill_(2.0)
        module.table = torch.arange(4)  # another one in its place

    def program(mesh):
        model = built_on_meta(lambda: nn.Sequential(nn.Linear(2, 4), Scale(4)), mesh, [Shard(0)])
        assert weft.materialize(model, 1, init_fn=init) is model
        assert torch.equal(model[1].weight.full_tensor(), torch.full((4,), 2.0))
        assert torch.equal(model[0].weight.full_tensor(), expected.weight)

    torch.manual_seed(1)
    expected = nn.Linear(2, 4)
    on_mesh(program)


def test_parameters_stay_the_same_objects_and_tied():
    def program(mesh):
        with torch.device("meta"):
            model = nn.ModuleDict({"embedding": nn.Embedding(8, 4), "head": nn.Linear(4, 8, bias=False)})
        weight = nn.Parameter(weft.distribute_tensor(model["embedding"].weight.detach(), mesh, [Shard(0)]))
        model["embedding"].weight = model["head"].weight = weight
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        weight.note = "kept"
        weft.materialize(model, 3)
        assert model["embedding"].weight is weight and model["head"].weight is weight and weight.note == "kept"
        before = weight.full_tensor().detach().clone()
        indices = weft.distribute_tensor(torch.tensor([1, 2]), mesh)
        model["head"](model["embedding"](indices)).sum().backward()
        assert weight.grad.placements == (Shard(0),)
        optimizer.step()
        assert not torch.equal(weight.full_tensor(), before)

    on_mesh(program)


def test_plain_modules_are_materialised_with_what_is_tied_in_them():
    torch.manual_seed(5)
    expected = nn.Linear(4, 6)
    with torch.device("meta"):
        model = nn.ModuleDict({"one": nn.Linear(4, 6)})
        model["two"] = nn.Linear(4, 6)
        model["two"].weight = model["one"].weight
        model["two"].bias.requires_grad_(False)

    def init(module):
        return NotImplemented if module is model["one"] else module is model["two"] and module.bias.zero_()

    weft.materialize(model, 5, init_fn=init)
    assert model["two"].weight is model["one"].weight and torch.equal(model["one"].weight, expected.weight)
    assert isinstance(model["one"].weight, nn.Parameter) and not model["two"].bias.requires_grad


def test_a_module_that_has_its_values_keeps_them():
    def program(mesh):
        model = nn.Sequential(nn.Linear(2, 4), built_on_meta(lambda: nn.Linear(4, 4), mesh, [Shard(0)]))
        model = nn.Sequential(model, nn.MultiheadAttention(4, 2))
        before = {name: value.clone() for name, value in model.state_dict().items() if not value.is_meta}
        weft.materialize(model, 1)
        for name, value in before.items():
            assert torch.equal(model.state_dict()[name], value), name
        assert torch.equal(model[0][1].weight.full_tensor(), expected.weight)

    torch.manual_seed(1)
    expected = nn.Linear(4, 4)
    on_mesh(program)


def test_a_generator_is_drawn_on_from_and_the_default_one_is_left_alone():
    torch.manual_seed(6)
    one, two = nn.Linear(3, 5), nn.Linear(3, 5)
    before = torch.get_rng_state()

    def program(mesh):
        generator = torch.Generator().manual_seed(6)
        for expected in (one, two):
            model = built_on_meta(lambda: nn.Linear(3, 5), mesh, [Shard(0)])
            weft.materialize(model, generator)
            assert torch.equal(model.weight.full_tensor(), expected.weight)

    on_mesh(program)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_materialised_module_computes_as_the_plain_one():
    def make():
        return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))

    torch.manual_seed(8)
    expected_model = make()
    x = torch.randn(5, 6)
    expected = expected_model(x)
    F.mse_loss(expected, torch.zeros(5, 3)).backward()

    def program(mesh):
        model = built_on_meta(make, mesh, [Shard(0)])
        weft.materialize(model, 8)
        y = model(weft.distribute_tensor(x, mesh))
        F.mse_loss(y, weft.zeros(5, 3, device_mesh=mesh)).backward()
        torch.testing.assert_close(y.full_tensor(), expected)
        for parameter, wanted in zip(model.parameters(), expected_model.parameters(), strict=True):
            assert parameter.grad.placements == parameter.placements
            torch.testing.assert_close(parameter.grad.full_tensor(), wanted.grad)

    on_mesh(program)


def test_nothing_is_communicated():
    def program(mesh):
        model = built_on_meta(CONSTRUCTED["encoder layer"], mesh, [Shard(0)])
        embedding = built_on_meta(CONSTRUCTED["embedding with padding"], mesh, [Shard(0)])
        with weft.comm_debug() as log:
            weft.materialize(model, 1)
            weft.materialize(embedding, 1)
        return log.calls

    assert on_mesh(program) == [0, 0]



def test_the_example_of_the_document_says_what_is_true():
    document = Path(__file__).resolve().parents[2] / "docs" / "deferred_init.md"
    program = re.search(r"```python\n(.*?)```", document.read_text(), re.DOTALL).group(1)
    on_ranks, seed, on_one_device = program.partition("torch.manual_seed")
    make_plain, _, said = on_one_device.partition("print")
    assert said == "(torch.equal(model[1].weight.full_tensor(), plain[1].weight))  # True\n"

    def rank_program(rank):
        names = {}
        exec(on_ranks, names)
        return names["model"][1].weight.full_tensor()

    # Ranks that are threads share torch's default generator, so the plain one is made by itself.
    names = {"torch": torch, "nn": nn}
    exec(seed + make_plain, names)
    for weight in weft.run_on_ranks(2, rank_program):
        assert torch.equal(weight, names["plain"][1].weight)


def test_new_tensor_of_a_distributed_one_is_replicated():
    def program(mesh):
        x = weft.zeros(4, device_mesh=mesh, placements=[Shard(0)])
        made = x.new_tensor([1.0, 2.0], dtype=torch.float64)
        assert made.placements == (Replicate(),) and made.dtype == torch.float64
        assert x.new_tensor(3).item() == 3.0 and x.new_tensor(3).dtype == torch.float32
        assert x.new_tensor([1.0], requires_grad=True).requires_grad
        assert x.new_tensor([1.0], device="meta").is_meta

    on_mesh(program)
    assert torch.equal(torch.ones(1).new_tensor([2.0]), torch.tensor([2.0]))
