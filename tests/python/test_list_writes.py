"""Operators on lists work on one element after the other, also where elements share memory and are redistributed."""

import pytest
import torch
from weft import Replicate, Shard

X = torch.arange(24.0).reshape(6, 4)


@pytest.mark.parametrize("layouts", [(Shard(0), Shard(1), Replicate()), (Shard(0),) * 3])
def test_an_element_reads_what_an_earlier_one_has_written(expect_as_plain, layouts):
    def add(D):
        a, b, c = (D(X * (i + 1), layout) for i, layout in enumerate(layouts))
        torch._foreach_add_([a, b, c], [c, a, b])
        return a, b, c

    def swap(D):
        a, b = D(X, layouts[0]), D(X * 2, layouts[1])
        torch._foreach_copy_([a, b], [b, a])
        return a, b

    def add_twice_with_numbers(D):
        a, b = D(X, layouts[0]), D(X * 2, layouts[1])
        torch._foreach_addcmul_([a, b, a], [b, a, b], [b, b, a], [1.0, 2.0, 3.0])
        return a, b

    def views(D):
        a, b = D(X, layouts[0]), D(X.T.contiguous(), layouts[1])
        torch._foreach_mul_([a, b], [b.T, a.T])
        return a, b

    for program in (add, swap, add_twice_with_numbers, views):
        expect_as_plain(program, Shard(0))


def test_one_tensor_twice(expect_as_plain):
    def doubled(D):
        a = D(X)
        torch._foreach_add_([a, a], [a, a])
        return a

    def mixed(D):
        a = D(X)
        torch._foreach_add_([a, a], [D(X, Shard(1)), a])
        return a

    for program in (doubled, mixed):
        expect_as_plain(program, Shard(0))
