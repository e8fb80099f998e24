"""Parametrizations of torch on distributed weights, added before or after the weight is distributed."""

import copy

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize
from weft import Replicate, Shard

torch.manual_seed(2)
LINEAR = nn.Linear(6, 4)
SQUARE = nn.Linear(4, 4)
X, Y = torch.randn(5, 6), torch.randn(5, 4)
PLACEMENTS = [Replicate(), Shard(0), Shard(1)]
PARAMETRIZATIONS = {
    "orthogonal": parametrizations.orthogonal,
    "orthogonal, cayley": lambda m: parametrizations.orthogonal(m, orthogonal_map="cayley"),
    "orthogonal, householder": lambda m: parametrizations.orthogonal(m, orthogonal_map="householder"),
    "orthogonal, no trivialization": lambda m: parametrizations.orthogonal(
        m, orthogonal_map="matrix_exp", use_trivialization=False
    ),
    "spectral_norm": lambda m: parametrizations.spectral_norm(m, n_power_iterations=3),
    "weight_norm": parametrizations.weight_norm,
    "weight_norm of columns": lambda m: parametrizations.weight_norm(m, dim=1),
    "weight_norm of all": lambda m: parametrizations.weight_norm(m, dim=None),
}


def plain(tensor):
    return (tensor.full_tensor() if weft.is_dtensor(tensor) else tensor).detach()


def train(module, x, y):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    results = []
    for _ in range(3):
        optimizer.zero_grad()
        with parametrize.cached():
            loss = F.mse_loss(module(x), y) + module.weight.square().mean()
        loss.backward()
        optimizer.step()
        results.append(plain(loss))
    return results + [plain(module.eval()(x)), plain(module.weight)]


def distributed(module, mesh, placement):
    """Matrices among the parameters are laid out by `placement`, all else is replicated."""
    module = copy.deepcopy(module)
    for owner in module.modules():
        for name, parameter in list(owner.named_parameters(recurse=False)):
            layout = placement if parameter.dim() == 2 and 1 not in parameter.shape else Replicate()
            owner.register_parameter(name, nn.Parameter(weft.distribute_tensor(parameter.data, mesh, [layout])))
        for name, buffer in list(owner.named_buffers(recurse=False)):
            owner.register_buffer(name, weft.distribute_tensor(buffer, mesh, [Replicate()]))
    return module


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("name", PARAMETRIZATIONS)
def test_before_the_weight_is_distributed(name, placement):
    parametrized = PARAMETRIZATIONS[name](copy.deepcopy(LINEAR))
    expected = train(copy.deepcopy(parametrized), X, Y)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x, y = (weft.distribute_tensor(t, mesh, [Replicate()]) for t in (X, Y))
        torch.testing.assert_close(train(distributed(parametrized, mesh, placement), x, y), expected, rtol=1e-4, atol=1e-5)

    weft.run_on_ranks(2, rank_program)


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("name", ["weight_norm", "weight_norm of columns", "weight_norm of all", "orthogonal, householder"])
def test_after_the_weight_is_distributed(name, placement):
    """The others draw random numbers, of other streams than on a single device."""
    expected = train(PARAMETRIZATIONS[name](copy.deepcopy(LINEAR)), X, Y)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x, y = (weft.distribute_tensor(t, mesh, [Replicate()]) for t in (X, Y))
        module = PARAMETRIZATIONS[name](distributed(LINEAR, mesh, placement))
        torch.testing.assert_close(train(module, x, y), expected, rtol=1e-4, atol=1e-5)
        parametrize.remove_parametrizations(module, "weight")
        assert weft.is_dtensor(module.weight)
        torch.testing.assert_close(plain(module.weight), expected[-1], rtol=1e-4, atol=1e-5)

    weft.run_on_ranks(2, rank_program)


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
def test_orthogonal_matrices_stay_orthogonal(orthogonal_map, placement):
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        torch.rand(rank)  # torch's own random numbers are others on each rank
        module = parametrizations.orthogonal(distributed(LINEAR, mesh, placement), orthogonal_map=orthogonal_map)
        train(module, *(weft.distribute_tensor(t, mesh, [Replicate()]) for t in (X, Y)))
        weight = plain(module.weight)
        torch.testing.assert_close(weight @ weight.T, torch.eye(4), rtol=1e-4, atol=1e-4)
        return weight

    first, second = weft.run_on_ranks(2, rank_program)
    torch.testing.assert_close(first, second, rtol=0, atol=0)


@pytest.mark.parametrize("placement", PLACEMENTS, ids=str)
def test_a_spectral_norm_is_one(placement):
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        module = parametrizations.spectral_norm(distributed(LINEAR, mesh, placement), n_power_iterations=50)
        module(weft.distribute_tensor(X, mesh, [Replicate()])).sum().backward()
        torch.testing.assert_close(torch.linalg.matrix_norm(plain(module.weight), 2), torch.tensor(1.0))

    weft.run_on_ranks(2, rank_program)


def test_a_weight_may_be_assigned():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        module = parametrizations.weight_norm(distributed(SQUARE, mesh, Shard(0)))
        weight = weft.distribute_tensor(torch.arange(16.0).view(4, 4) + 1, mesh, [Shard(0)])
        module.weight = weight
        torch.testing.assert_close(plain(module.weight), plain(weight))

    weft.run_on_ranks(2, rank_program)


def test_a_tensor_shares_the_memory_of_another():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        one, other = (weft.distribute_tensor(t, mesh, [Shard(0)]) for t in (torch.zeros(4), torch.ones(2, 6)))
        one.set_(other)
        assert one.shape == (2, 6) and one.placements == (Shard(0),)
        other.add_(1)
        torch.testing.assert_close(plain(one), torch.full((2, 6), 2.0))
        with pytest.raises(TypeError, match="two distributed tensors are required, but got a plain source"):
            one.set_(torch.ones(2))
        with pytest.raises(RuntimeError, match="Could not set tensor of type double to a tensor of type float"):
            one.set_(other.double())

    weft.run_on_ranks(2, rank_program)
