"""Plans that name parameters, modules by either of two names, and models by their own plan; layers that a plan leaves out."""

import copy
import warnings

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F

torch.manual_seed(7)
TOKENS = torch.randint(12, (3, 4))


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_up, self.down = nn.Parameter(torch.randn(4, 12, 8) / 4), nn.Parameter(torch.randn(4, 8, 6) / 4)

    def forward(self, x):
        gate, up = torch.einsum("bsh,eih->bsei", x, self.gate_up).chunk(2, -1)
        return torch.einsum("bsei,ehi->bsh", F.silu(gate) * up, self.down)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.experts = nn.Embedding(12, 8), Experts()
        self.twin = self.embed
        self.head = nn.Linear(8, 12, bias=False)
        self.head.weight = self.embed.weight
        self.tp_plan = {"head": "colwise_gather_output", "layers.*.absent": "rowwise"}

    def forward(self, tokens):
        return self.head(self.experts(self.twin(tokens)))


def gradients(model):
    model(TOKENS).square().mean().backward()
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def parallel(plan, inspect=lambda model: None):
    """Expects the gradients of one device, and returns what `inspect` gives on the first rank."""
    plain = Model()
    expected = gradients(copy.deepcopy(plain))

    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        model = weft.parallelize_module(copy.deepcopy(plain), mesh, plan)
        with weft.comm_debug() as communicated:
            computed = gradients(model)
        for name, gradient in computed.items():
            torch.testing.assert_close(gradient.full_tensor(), expected[name])
        return inspect(model), {kind: calls for kind, (calls, _) in communicated.by_collective().items()}

    return weft.run_on_ranks(2, program)[0]


def test_parameters_are_sharded_as_stacks_of_weights():
    plan = {"experts.gate_up": {"style": "colwise", "parts": 2}, "experts.down": "rowwise", "experts": "all_reduce"}
    placements, communicated = parallel(
        plan, lambda model: [weft.placements(p) for p in model.experts.parameters()]
    )
    assert [str(each) for (each,) in placements] == ["SS(1,2)", "S(2)"]
    assert communicated == {"all_reduce": 2}


def test_experts_are_sharded_by_their_first_dim():
    placements, _ = parallel({"experts.*": "shard"}, lambda model: [weft.placements(p) for p in model.experts.parameters()])
    assert [str(each) for (each,) in placements] == ["S(0)", "S(0)"]


@pytest.mark.parametrize("plan", [{"twin": "rowwise"}, {"embed": "rowwise"}, {"head": "colwise"}, "auto"])
def test_tied_layers_are_named_by_any_of_their_names(plan):
    (placements,), communicated = parallel(plan, lambda model: [weft.placements(model.head.weight)])
    assert str(placements[0]) == "S(0)"
    assert communicated.get("all_reduce") == 2  # the rows of the table, and the gradient of the head's input


def test_auto_is_for_models_that_bring_a_plan():
    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        with pytest.raises(ValueError, match="the tp_plan of a model of transformers, but Linear has none"):
            weft.parallelize_module(nn.Linear(2, 2), mesh, "auto")

    weft.run_on_ranks(2, program)


def parallelize(model, plan):
    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        weft.parallelize_module(model(), mesh, plan)

    weft.run_on_ranks(2, program)


def blocks():
    return nn.ModuleDict({"up": nn.Linear(4, 8), "layers": nn.ModuleList(nn.Linear(8, 8) for _ in range(2))})


def test_layers_that_a_plan_leaves_unsharded_are_told():
    with pytest.warns(UserWarning, match=r"does not name 2 layers with 70% of the parameters.*: layers\.\* \(2\)\. Give"):
        parallelize(blocks, {"up": "colwise"})


@pytest.mark.parametrize("of_experts", [{}, {"experts": "all_reduce"}], ids=["unnamed", "outputs alone"])
def test_experts_that_a_plan_leaves_unsharded_are_told(of_experts):
    with pytest.warns(UserWarning, match=r"does not name 2 layers with 86% .*: experts\.gate_up, experts\.down\. Give"):
        parallelize(Model, {"head": "colwise"} | of_experts)


def test_what_is_replicated_by_name_is_not_told():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallelize(Model, {"head": "colwise", "experts.*": "replicate"})
        parallelize(Model, {"experts.*": "shard", "embed": "replicate"})  # the head is tied to it
        parallelize(blocks, {"up": "colwise", "layers.*": "replicate"})
        parallelize(lambda: nn.Sequential(nn.Conv1d(8, 8, 3), nn.Linear(4, 4)), {"1": "colwise"})  # no style is for convolutions
