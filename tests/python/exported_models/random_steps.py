"""The operators of random programs: what each may be called with, and the call."""

import math
from dataclasses import dataclass
from typing import Callable

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Operator:
    # (dice, values, first) to (operands, numbers), or None where the first operand does not do.
    propose: Callable
    run: Callable  # of the operands, then the numbers


def takes_any(dice, values, first):
    return (first,), ()


def takes_dim(dice, values, first):
    rank = values[first].dim()
    return ((first,), (dice.randrange(rank),)) if rank else None


def takes_long_dim(dice, values, first):
    found = takes_dim(dice, values, first)
    return found if found and values[first].shape[found[1][0]] > 1 else None


def takes_two_dims(dice, values, first):
    rank = values[first].dim()
    return ((first,), (dice.randrange(rank), dice.randrange(rank))) if rank > 1 else None


def takes_position(dice, values, first):
    found = takes_dim(dice, values, first)
    return found and (found[0], (*found[1], dice.randrange(values[first].shape[found[1][0]])))


def takes_slice(dice, values, first):
    found = takes_dim(dice, values, first)
    if not found:
        return None
    size = values[first].shape[found[1][0]]
    begin = dice.randrange(size)
    return found[0], (*found[1], begin, dice.randrange(begin + 1, size + 1), dice.randrange(1, 3))


def takes_distinct_dim(dice, values, first):
    """A dim along which no two elements are the same: which of them is the larger does not depend on their order."""
    found = takes_long_dim(dice, values, first)
    if not found:
        return None
    ordered = values[first].sort(found[1][0])[0]
    return found if (ordered.diff(dim=found[1][0]) > 1e-6).all() else None


def takes_shape(dice, values, first):
    """Another shape of as many elements: primes, put together at random."""
    rest, shape = values[first].numel(), []
    for prime in (2, 3, 5, 7):
        while rest > 1 and rest % prime == 0:
            rest //= prime
            if not shape or dice.random() < 0.5:
                shape.insert(dice.randrange(len(shape) + 1), prime)
            else:
                shape[dice.randrange(len(shape))] *= prime
    return ((first,), tuple(shape)) if rest == 1 and 0 < len(shape) < 5 else None


def takes_merge(dice, values, first):
    rank = values[first].dim()
    return ((first,), (dice.randrange(rank - 1),)) if rank > 1 else None


def takes_split(dice, values, first):
    """A dim and a factor of its size."""
    found = takes_dim(dice, values, first)
    if not found:
        return None
    size = values[first].shape[found[1][0]]
    factors = [factor for factor in range(2, size) if size % factor == 0]
    return (found[0], (*found[1], dice.choice(factors))) if factors else None


def takes_other(fits, count=1):
    def propose(dice, values, first):
        fitting = [i for i, value in enumerate(values) if fits(values[first], value)]
        return ((first, *(dice.choice(fitting) for _ in range(count))), ()) if fitting else None

    return propose


def broadcast(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a.shape), reversed(b.shape)))


def expands(a, b):
    """Whether b fits into a."""
    return b.dim() <= a.dim() and all(n in (m, 1) for m, n in zip(reversed(a.shape), reversed(b.shape)))


def takes_joined(dice, values, first):
    found = takes_dim(dice, values, first)
    if not found:
        return None
    dim = found[1][0]

    def fits(a, b):
        return a.dim() == b.dim() and all(m == n for d, (m, n) in enumerate(zip(a.shape, b.shape)) if d != dim)

    return takes_other(fits, dice.randrange(1, 3))(dice, values, first)[0], (dim,)


def is_product(a, b):
    return a.dim() >= 2 and b.dim() == 2 and a.shape[-1] == b.shape[0]


def is_batched_product(a, b):
    return a.dim() == b.dim() == 3 and a.shape[0] == b.shape[0] and a.shape[2] == b.shape[1]


def shares_last(a, b):
    return a.dim() > 0 and b.dim() > 0 and a.shape[-1] == b.shape[-1]


def roughly_sized(numbers):
    """Between -1 and 1, by position: numbers that are part of the program."""
    return [math.sin(1.0 + 3 * i) for i in range(numbers)]


def written(x, dim):
    """A copy, of which a slice is written to."""
    copy = x.clone()
    copy.narrow(dim, 0, (x.shape[dim] + 1) // 2).mul_(0.5).add_(1.0)
    return copy


def attention(x, y):
    return F.scaled_dot_product_attention(x[None], y[None], y[None])[0]


ANY, DIM, LONG, OTHER = takes_any, takes_dim, takes_long_dim, takes_other(broadcast)
SAME = takes_other(lambda a, b: a.shape == b.shape)

OPERATORS = {
    name: Operator(propose, run)
    for name, propose, run in (
        ("relu", ANY, torch.relu),
        ("gelu", ANY, F.gelu),
        ("sigmoid", ANY, torch.sigmoid),
        ("tanh", ANY, torch.tanh),
        ("neg", ANY, torch.neg),
        ("square", ANY, torch.square),
        ("root", ANY, lambda x: (x.abs() + 0.5).sqrt()),
        ("affine", ANY, lambda x: 0.7 * x + 0.3),
        ("clamp", ANY, lambda x: x.clamp(-0.9, 1.1)),
        ("add", OTHER, torch.add),
        ("sub", OTHER, lambda x, y: torch.sub(x, y, alpha=0.5)),
        ("mul", OTHER, torch.mul),
        ("div", OTHER, lambda x, y: x / (y.abs() + 1.0)),
        ("maximum", OTHER, torch.maximum),
        ("where", takes_other(lambda a, b: a.shape == b.shape, 2), lambda x, y, z: torch.where(x > 0.123, y, z)),
        ("masked_fill", SAME, lambda x, y: x.masked_fill(y > 0.123, 0.5)),
        ("lerp", SAME, lambda x, y: torch.lerp(x, y, 0.3)),
        ("mm", takes_other(is_product), torch.matmul),
        ("bmm", takes_other(is_batched_product), torch.bmm),
        ("inner", takes_other(shares_last), lambda x, y: torch.einsum("...i,...i->...", x, y)),
        ("gram", ANY, lambda x: x @ x.transpose(-1, -2) if x.dim() > 1 else x),
        ("attention", takes_other(lambda a, b: a.dim() == b.dim() == 3 and a.shape[::2] == b.shape[::2]), attention),
        ("transpose", takes_two_dims, torch.transpose),
        ("movedim", takes_two_dims, torch.movedim),
        ("unsqueeze", DIM, torch.unsqueeze),
        ("squeeze", DIM, torch.squeeze),
        ("reshape", takes_shape, lambda x, *shape: x.reshape(shape)),
        ("flatten", takes_merge, lambda x, dim: x.flatten(dim, dim + 1)),
        ("unflatten", takes_split, lambda x, dim, factor: x.unflatten(dim, (factor, -1))),
        ("expand", takes_other(lambda a, b: expands(b, a)), lambda x, y: x.expand(y.shape) * 2),
        ("repeat", DIM, lambda x, dim: x.repeat_interleave(2, dim)),
        ("flip", DIM, lambda x, dim: x.flip(dim)),
        ("roll", DIM, lambda x, dim: x.roll(1, dim)),
        ("slice", takes_slice, lambda x, dim, begin, end, step: x.transpose(0, dim)[begin:end:step].transpose(0, dim)),
        ("select", takes_position, torch.select),
        ("halves", LONG, lambda x, dim: x.chunk(2, dim)[1] * 2),
        ("unbound", LONG, lambda x, dim: x.unbind(dim)[0] + x.unbind(dim)[-1]),
        ("index", LONG, lambda x, dim: x.index_select(dim, torch.tensor([1, 0, 1]))),
        ("pad", LONG, lambda x, dim: F.pad(x.transpose(dim, -1), (1, 2), value=0.5).transpose(dim, -1)),
        ("triangle", ANY, lambda x: x.tril() if x.dim() > 1 else x + 1),
        ("diagonal", takes_two_dims, lambda x, a, b: x.diagonal(dim1=a, dim2=b) if a != b else x * 0.5),
        ("cat", takes_joined, lambda *args: torch.cat(args[:-1], args[-1])),
        ("stack", SAME, lambda x, y: torch.stack([x, y, x], -1)),
        ("sum", DIM, torch.sum),
        ("sum_all", ANY, torch.sum),
        ("mean", DIM, lambda x, dim: x.mean(dim, keepdim=True)),
        ("amax", DIM, torch.amax),
        ("var", LONG, torch.var),
        ("norm", DIM, lambda x, dim: torch.linalg.vector_norm(x, dim=dim)),
        ("softmax", DIM, torch.softmax),
        ("log_softmax", DIM, torch.log_softmax),
        ("logsumexp", DIM, torch.logsumexp),
        ("cumsum", DIM, torch.cumsum),
        ("layer_norm", ANY, lambda x: F.layer_norm(x, x.shape[-1:]) if x.dim() else x),
        ("sort", takes_distinct_dim, lambda x, dim: x.sort(dim)[0]),
        ("topk", takes_distinct_dim, lambda x, dim: x.topk(2, dim)[0]),
        ("argmax", takes_distinct_dim, lambda x, dim: x.argmax(dim).to(x.dtype) * 0.1),
        ("one_hot", takes_distinct_dim, lambda x, dim: F.one_hot(x.argmax(dim), x.shape[dim]).to(x.dtype)),
        ("written", DIM, written),
        ("filled", ANY, lambda x: torch.full_like(x, 0.25) + x.new_ones(x.shape)),
        ("scattered", LONG, lambda x, dim: torch.zeros_like(x).index_add(dim, torch.tensor([1, 1]), x.narrow(dim, 0, 2))),
        ("constant", DIM, lambda x, dim: x.transpose(dim, -1) * torch.tensor(roughly_sized(x.shape[dim]), dtype=x.dtype)),
    )
}
