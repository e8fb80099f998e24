"""Functions of torch written in Python that make tensors from shapes, on distributed tensors."""

import pytest
import torch
import torch.nn.functional as F
import weft
from torch import nn
from weft import Replicate, Shard

MIXED = "distributed and plain tensors cannot be mixed"
PLACEMENTS = [Replicate(), Shard(0), Shard(1)]


def numbers(*shape):
    return torch.arange(torch.Size(shape).numel()).view(shape).mul(0.7).square().sin()


def mask(*shape):
    return torch.arange(torch.Size(shape).numel()).view(shape) % 5 != 0


def recurrent(kind, D, *arguments):
    made = kind(*arguments)
    for name, parameter in list(made.named_parameters()):
        setattr(made, name, nn.Parameter(D(numbers(*parameter.shape), Replicate())))
    return made


def with_gradient(function, D, *shape):
    x = D(numbers(*shape)).requires_grad_()
    out = function(x)
    out.pow(2).sum().backward()
    return out, x.grad


PROGRAMS = {
    "masked.mean": lambda D: with_gradient(lambda x: torch.masked.mean(x, 0, mask=D(mask(4, 3))), D, 4, 3),
    "masked.mean without a mask": lambda D: with_gradient(lambda x: torch.masked.mean(x, 1), D, 4, 3),
    "masked.var": lambda D: with_gradient(lambda x: torch.masked.var(x, 1, mask=D(mask(4, 3))), D, 4, 3),
    "masked.std": lambda D: with_gradient(lambda x: torch.masked.std(x, 0), D, 4, 3),
    "masked.sum": lambda D: with_gradient(lambda x: torch.masked.sum(x, 0, mask=D(mask(4, 3))), D, 4, 3),
    "masked.softmax": lambda D: with_gradient(lambda x: torch.masked.softmax(x, 1, mask=D(mask(4, 3))), D, 4, 3),
    "masked.normalize": lambda D: with_gradient(lambda x: torch.masked.normalize(x, 2.0, 1, mask=D(mask(4, 3))), D, 4, 3),
    "masked.argmax": lambda D: torch.masked.argmax(D(numbers(4, 3)), 0, mask=D(mask(4, 3))),
    "masked.median": lambda D: torch.masked.median(D(numbers(4, 3)), 1, mask=D(mask(4, 3))),
    "masked.logsumexp": lambda D: torch.masked.logsumexp(D(numbers(4, 3)), 1, mask=D(mask(4, 3))),
    "embedding_bag": lambda D: with_gradient(lambda x: F.embedding_bag(D(torch.tensor([[0, 3], [2, 1]])), x), D, 4, 3),
    "EmbeddingBag": lambda D: recurrent(nn.EmbeddingBag, D, 4, 3)(D(torch.tensor([[0, 3], [2, 1]]))),
    "unravel_index": lambda D: list(torch.unravel_index(D(torch.tensor([[3, 7], [1, 11]])), (3, 4))),
    "lstm": lambda D: with_gradient(lambda x: recurrent(nn.LSTM, D, 3, 5)(x)[0], D, 4, 2, 3),
    "gru": lambda D: with_gradient(lambda x: recurrent(nn.GRU, D, 3, 5)(x)[0], D, 4, 2, 3),
    "rnn": lambda D: with_gradient(lambda x: recurrent(nn.RNN, D, 3, 5)(x)[0], D, 4, 2, 3),
    "lstm without a batch": lambda D: recurrent(nn.LSTM, D, 3, 5)(D(numbers(4, 3)))[0],
    "lstm cell": lambda D: list(recurrent(nn.LSTMCell, D, 3, 5)(D(numbers(4, 3)))),
    "gru cell": lambda D: recurrent(nn.GRUCell, D, 3, 5)(D(numbers(4, 3), Replicate())),
    "rnn cell": lambda D: recurrent(nn.RNNCell, D, 3, 5)(D(numbers(4, 3))),
    "linear_cross_entropy": lambda D: with_gradient(
        lambda x: F.linear_cross_entropy(x, D(numbers(6, 3), Replicate()), D(torch.tensor([0, 5, 2, 1]), Replicate())), D, 4, 3
    ),
    "matrix_rank": lambda D: torch.linalg.matrix_rank(D(numbers(4, 4))),
    "matrix_rank of a batch": lambda D: torch.linalg.matrix_rank(D(numbers(2, 4, 4))),
    "matrix_rank, hermitian": lambda D: torch.linalg.matrix_rank(D(numbers(2, 4, 4)), hermitian=True),
}


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_they_make_counts_as_replicated(expect_as_plain, name, placement):
    expect_as_plain(PROGRAMS[name], placement)


@pytest.mark.parametrize(
    "program",
    [
        lambda D: torch.masked.mean(D(numbers(4, 3)), 0, mask=mask(4, 3)),
        lambda D: recurrent(nn.LSTM, D, 3, 5)(D(numbers(4, 2, 3)), (torch.zeros(1, 2, 5), torch.zeros(1, 2, 5))),
        lambda D: recurrent(nn.GRU, D, 3, 5)(numbers(4, 2, 3)),
        lambda D: F.embedding_bag(torch.tensor([[0, 3], [2, 1]]), D(numbers(4, 3))),
    ],
)
def test_what_the_caller_gives_does_not(program):
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))

        def distribute(tensor, placement=Shard(0)):
            return weft.distribute_tensor(tensor, mesh, [placement])

        with pytest.raises(ValueError, match=MIXED):
            program(distribute)
        with weft.replicate_plain():
            program(distribute)
        with pytest.raises(ValueError, match=MIXED):
            distribute(torch.ones(4)) + torch.ones(4)

    weft.run_on_ranks(2, rank_program)


DRAWN = {
    "svd_lowrank": lambda x: torch.svd_lowrank(x.view(4, 6), q=4),
    "pca_lowrank": lambda x: torch.pca_lowrank(x.view(4, 6), q=3),
    "fractional_max_pool2d": lambda x: F.fractional_max_pool2d(x.view(1, 2, 3, 4), 2, output_ratio=(0.7, 0.5)),
    "fractional_max_pool2d with indices": lambda x: F.fractional_max_pool2d(
        x.view(1, 2, 3, 4), 2, output_size=2, return_indices=True
    ),
    "FractionalMaxPool3d": lambda x: nn.FractionalMaxPool3d((1, 1, 2), output_size=(1, 2, 2))(x.view(1, 1, 2, 3, 4)),
}


@pytest.mark.parametrize("name", DRAWN)
def test_random_numbers_are_the_same_on_every_rank_and_under_any_placement(name):
    """torch's own generator is in another state on every rank."""

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        results = []
        for placement in PLACEMENTS[:2]:
            weft.manual_seed(3)
            x = weft.distribute_tensor(numbers(24), mesh, [placement])
            torch.rand(rank + 1)
            results.append([t.full_tensor() for t in torch.utils._pytree.tree_leaves(DRAWN[name](x))])
        torch.testing.assert_close(results[0], results[1])
        return results[0]

    first, second = weft.run_on_ranks(2, rank_program)
    torch.testing.assert_close(first, second)


def test_a_low_rank_matrix_is_found_again():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = numbers(8, 2) @ numbers(2, 6)
        u, s, v = torch.svd_lowrank(weft.distribute_tensor(x, mesh, [Shard(0)]), q=2)
        torch.testing.assert_close((u * s @ v.T).full_tensor(), x)

    weft.run_on_ranks(2, rank_program)


def test_plain_tensors_are_computed_as_ever():
    torch.manual_seed(4)
    first = torch.svd_lowrank(numbers(4, 6), q=2)
    torch.manual_seed(4)
    torch.testing.assert_close(first, torch.svd_lowrank(numbers(4, 6), q=2))
    assert torch.svd_lowrank.__name__ == "svd_lowrank" and torch._lowrank.svd_lowrank is torch.svd_lowrank
