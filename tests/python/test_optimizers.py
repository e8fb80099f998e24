"""Optimizers of torch over distributed parameters: every parameter after three steps is that of a single device."""

import copy

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F
from weft import Replicate, Shard

torch.manual_seed(2)
MODEL = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 4))
X, Y = torch.randn(5, 6), torch.randn(5, 4)
LAYOUTS = {
    "as tensor parallel": {"0.weight": Shard(0), "0.bias": Shard(0), "2.weight": Shard(1)},
    "otherwise": {"0.weight": Shard(1), "2.weight": Shard(0), "2.bias": Shard(0)},
}
OPTIMIZERS = {
    "SGD": (torch.optim.SGD, {"momentum": 0.9, "nesterov": True}),
    "SGD, plain": (torch.optim.SGD, {"weight_decay": 0.1}),
    "Adam": (torch.optim.Adam, {"amsgrad": True}),
    "AdamW": (torch.optim.AdamW, {}),
    "Adamax": (torch.optim.Adamax, {}),
    "NAdam": (torch.optim.NAdam, {}),
    "RAdam": (torch.optim.RAdam, {}),
    "Adagrad": (torch.optim.Adagrad, {}),
    "Adadelta": (torch.optim.Adadelta, {}),
    "RMSprop": (torch.optim.RMSprop, {"momentum": 0.5, "centered": True}),
    "Rprop": (torch.optim.Rprop, {}),
    "ASGD": (torch.optim.ASGD, {}),
    "Adafactor": (torch.optim.Adafactor, {}),
}
FUSED = ["SGD", "Adam", "AdamW", "Adagrad"]


def distributed(model, mesh, layouts):
    model = copy.deepcopy(model)
    for name, parameter in list(model.named_parameters()):
        owner = model.get_submodule(name.rpartition(".")[0])
        placed = weft.distribute_tensor(parameter.data, mesh, [layouts.get(name, Replicate())])
        owner.register_parameter(name.rpartition(".")[2], nn.Parameter(placed))
    return model


def plain(tensor):
    return (tensor.full_tensor() if weft.is_dtensor(tensor) else tensor).detach()


def train(model, make, to_input=lambda t: t, clip=None, steps=3):
    optimizer = make(model.parameters())
    x, y = to_input(X), to_input(Y)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        return loss

    losses = [plain(optimizer.step(closure)) for _ in range(steps)]
    return losses + [plain(p) for p in model.parameters()]


def expect_as_plain(make, layouts, model=MODEL, clip=None, **tolerance):
    expected = train(copy.deepcopy(model), make, clip=clip)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        parallel = distributed(model, mesh, layouts)
        result = train(parallel, make, lambda t: weft.distribute_tensor(t, mesh, [Replicate()]), clip=clip)
        for (name, parameter), before in zip(parallel.named_parameters(), model.parameters(), strict=True):
            assert parameter.placements == (layouts.get(name, Replicate()),) and parameter.shape == before.shape
        torch.testing.assert_close(result, expected, **(tolerance or {"rtol": 1e-4, "atol": 1e-5}))

    weft.run_on_ranks(2, rank_program)


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_a_single_device(name, foreach, layouts):
    kind, options = OPTIMIZERS[name]
    expect_as_plain(lambda p: kind(p, lr=0.1, foreach=foreach, **options), LAYOUTS[layouts], clip=0.5)


@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize("name", FUSED)
def test_fused(name, layouts):
    kind, options = OPTIMIZERS[name]
    expect_as_plain(lambda p: kind(p, lr=0.1, fused=True, **options), LAYOUTS[layouts], clip=0.5)


@pytest.mark.parametrize("options", [{"foreach": False}, {"fused": True}], ids=str)
def test_the_learning_rate_may_be_a_tensor(options):
    expect_as_plain(lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1), **options), LAYOUTS["as tensor parallel"])


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
@pytest.mark.parametrize("layouts", LAYOUTS)
def test_lbfgs(layouts, line_search):
    expect_as_plain(
        lambda p: torch.optim.LBFGS(p, lr=0.5, max_iter=4, line_search_fn=line_search), LAYOUTS[layouts], rtol=1e-3, atol=1e-4
    )


MATRICES = nn.Sequential(nn.Linear(6, 8, bias=False), nn.Tanh(), nn.Linear(8, 4, bias=False))


@pytest.mark.parametrize("options", [{}, {"adjust_lr_fn": "match_rms_adamw", "nesterov": False}], ids=str)
@pytest.mark.parametrize("layout", [Shard(0), Shard(1), Replicate()], ids=str)
def test_muon(layout, options):
    layouts = {"0.weight": layout, "2.weight": layout}
    expect_as_plain(lambda p: torch.optim.Muon(p, lr=0.1, **options), layouts, model=MATRICES)


def test_muon_gathers_a_gradient_once_in_bfloat16():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        weight = nn.Parameter(weft.distribute_tensor(X, mesh, [Shard(1)]))
        optimizer = torch.optim.Muon([weight], lr=0.1)
        weight.square().sum().backward()
        with weft.comm_debug() as counted:
            optimizer.step()
        assert [(row.collective, row.calls, row.bytes) for row in counted.rows] == [("all_gather", 1, X.numel())]

    weft.run_on_ranks(2, rank_program)


MIXED = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


@pytest.mark.parametrize("clip", [nn.utils.clip_grad_norm_, weft.clip_grad_norm_])
@pytest.mark.parametrize("kind", MIXED)
def test_plain_and_distributed_parameters_on_two_meshes(kind, clip):
    """One optimizer and one norm over a plain module, and modules on two meshes."""
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(4, 6, generator=generator)
    with torch.random.fork_rng():
        torch.manual_seed(4)
        head = nn.Linear(6, 4)

    def steps(model, head, weight, to_input):
        parameters = [*head.parameters(), *model.parameters(), weight]
        optimizer = torch.optim.AdamW(parameters, lr=0.1, **MIXED[kind])
        norms = []
        for _ in range(2):
            optimizer.zero_grad()
            F.mse_loss(head(X), Y).backward()
            F.mse_loss(model(to_input(X)), to_input(Y)).backward()
            weight.square().mean().backward()
            norms.append(plain(clip(parameters, 0.3)))
            nn.utils.clip_grad_value_(parameters, 0.05, foreach=MIXED[kind].get("foreach"))
            optimizer.step()
        return norms + [plain(p) for p in parameters]

    expected = steps(copy.deepcopy(MODEL), copy.deepcopy(head), nn.Parameter(weight.clone()), lambda t: t)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        other = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("ep",))
        result = steps(
            distributed(MODEL, mesh, LAYOUTS["as tensor parallel"]),
            copy.deepcopy(head),
            nn.Parameter(weft.distribute_tensor(weight, other, [Shard(0)])),
            lambda t: weft.distribute_tensor(t, mesh, [Replicate()]),
        )
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)

    weft.run_on_ranks(2, rank_program)


def test_the_state_is_laid_out_as_the_parameters_and_can_be_copied():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        layouts = LAYOUTS["as tensor parallel"]
        model = distributed(MODEL, mesh, layouts)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        model(weft.distribute_tensor(X, mesh, [Replicate()])).sum().backward()
        optimizer.step()
        for parameter, state in optimizer.state.items():
            assert state["exp_avg"].placements == state["exp_avg_sq"].placements == parameter.placements
        other = torch.optim.AdamW(model.parameters(), lr=0.1)
        other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        for parameter, state in optimizer.state.items():
            torch.testing.assert_close(plain(other.state[parameter]["exp_avg"]), plain(state["exp_avg"]))

    weft.run_on_ranks(2, rank_program)


def test_parameters_as_one_vector():
    expected = nn.utils.parameters_to_vector(MODEL.parameters()).detach()

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        model = distributed(MODEL, mesh, LAYOUTS["as tensor parallel"])
        vector = nn.utils.parameters_to_vector(model.parameters())
        torch.testing.assert_close(plain(vector), expected)
        nn.utils.vector_to_parameters(vector.detach() * 2, model.parameters())
        for parameter, before in zip(model.parameters(), MODEL.parameters(), strict=True):
            torch.testing.assert_close(plain(parameter), before.detach() * 2)

    weft.run_on_ranks(2, rank_program)
