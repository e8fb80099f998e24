"""Collectives next to matmuls, in the forms that programs have: of every form, how many are fused, and why the others are not.

Each is a function of this rank's x [4, 16], a second input y [4, 16], weights w and v [16, 8], and s [2, 3, 8, 16], with the
functional collectives of a group of two.
"""

from dataclasses import dataclass
from typing import Callable

import torch

GROUP = "0"
aten = torch.ops.aten
collectives = torch.ops._c10d_functional


@dataclass(frozen=True)
class Pattern:
    """`fused` collectives overlap matmuls; if none does, the reason has `why`."""

    run: Callable
    fused: int = 1
    why: str = ""


PATTERNS: dict[str, Pattern] = {}


def pattern(fused=1, why=""):
    def add(run):
        PATTERNS[run.__name__] = Pattern(run, fused, why)
        return run

    return add


def wait(started):
    return collectives.wait_tensor(started)


def gather(x):
    return wait(collectives.all_gather_into_tensor(x, 2, GROUP))


def scatter(x, op="sum"):
    return wait(collectives.reduce_scatter_tensor(x, op, 2, GROUP))


def gather_along(x, dim):
    return aten.cat([*aten.split.Tensor(gather(x), x.shape[0])], dim)


def scatter_along(x, dim, op="sum"):
    return scatter(aten.cat([*aten.split.Tensor(x, x.shape[dim] // 2, dim)]), op)


def rows_times(x, w):
    """The matmul of a tensor of more than two dims, as torch decomposes it."""
    product = aten.mm(aten.reshape(x, [-1, x.shape[-1]]), w)
    return aten.reshape(product, [*x.shape[:-1], w.shape[1]])


# All-gathers.


@pattern()
def gathered_rows(x, y, w, v, s):
    return aten.mm(gather(x), w)


@pattern()
def gathered_rows_for_several_matmuls(x, y, w, v, s):
    full = gather(x)
    return aten.mm(full, w), aten.mm(full, v)


@pattern()
def gathered_by_split_and_cat(x, y, w, v, s):
    return rows_times(gather_along(s, 1), w)


@pattern()
def gathered_by_slices_and_cat(x, y, w, v, s):
    full = gather(s)
    return rows_times(aten.cat([full[:2], full[2:]], 1), w)


@pattern()
def gathered_as_bits(x, y, w, v, s):
    return aten.mm(aten.view.dtype(gather(aten.view.dtype(x, torch.int32)), torch.float32), w)


@pattern()
def gathered_as_bits_by_split_and_cat(x, y, w, v, s):
    pieces = aten.split.Tensor(gather(aten.view.dtype(s, torch.int32)), 2)
    return rows_times(aten.view.dtype(aten.cat([*pieces], 1), torch.float32), w)


@pattern()
def gathered_inner_dim(x, y, w, v, s):
    full = gather_along(x, 1)
    return aten.mm(full, aten.cat([w, v]))


@pattern()
def gathered_with_a_bias(x, y, w, v, s):
    return aten.addmm(v[0], gather(x), w)


@pattern()
def gathered_for_a_batched_matmul(x, y, w, v, s):
    full = gather(s)
    return aten.bmm(aten.reshape(full, [1, -1, 16]), aten.unsqueeze(w, 0))


@pattern()
def gathered_value_is_used_too(x, y, w, v, s):
    full = gather_along(s, 1)
    return rows_times(full, w), aten.relu(full), full


@pattern()
def gathered_before_it_is_split_is_used_too(x, y, w, v, s):
    full = gather(s)
    return rows_times(aten.cat([*aten.split.Tensor(full, 2)], 1), w), full


@pattern()
def later_weights_are_computed_before(x, y, w, v, s):
    full = gather(x)
    first = aten.mm(full, w)
    later = aten.relu(aten.neg(v))
    return first, aten.mm(full, later)


@pattern()
def a_weight_that_needs_the_gathered_value_stays_behind(x, y, w, v, s):
    full = gather(x)
    other = aten.mm(aten.permute(full, [1, 0]), aten.mm(full, v))
    return aten.mm(full, w), aten.mm(full, other)


@pattern(fused=2)
def two_gathers_of_one_shard(x, y, w, v, s):
    return aten.mm(gather(x), w), aten.mm(gather(x), v)


@pattern()
def gathered_before_the_product_has_other_uses(x, y, w, v, s):
    full = gather_along(s, 1)
    flat = aten.mm(aten.reshape(full, [-1, 16]), w)
    return aten.reshape(flat, [2, 6, 8, 8]), aten.relu(flat)


@pattern(fused=0, why="the shards are joined in another order")
def gathered_in_another_order(x, y, w, v, s):
    first, second = aten.split.Tensor(gather(s), 2)
    return rows_times(aten.cat([second, first], 1), w)


@pattern(fused=0, why="the joined tensors are not the members' equal shards")
def gathered_in_unequal_slices(x, y, w, v, s):
    full = gather(x)
    return aten.mm(aten.cat([full[:3], full[3:5]], 0), w)


@pattern(fused=0, why="only a slice of it is used")
def gathered_and_trimmed(x, y, w, v, s):
    full = gather(x)
    return aten.mm(aten.cat([full[:4], full[4:]], 0)[:7], w)


@pattern(fused=0, why="the shard of member 0 is joined twice")
def gathered_and_one_joined_twice(x, y, w, v, s):
    first, _ = aten.split.Tensor(gather(s), 2)
    return rows_times(aten.cat([first, first], 1), w)


@pattern(fused=0, why="the shard of member 1 is used by itself")
def gathered_and_only_one_used(x, y, w, v, s):
    return aten.mm(aten.split.Tensor(gather(x), 4)[1], w)


@pattern(fused=0, why="has it on its right-hand side")
def gathered_on_the_right(x, y, w, v, s):
    return aten.mm(aten.permute(w, [1, 0]), aten.permute(gather(x), [1, 0]))


@pattern(fused=0, why="no matmul takes what is gathered")
def gathered_for_no_matmul(x, y, w, v, s):
    return aten.mm(aten.relu(gather(x)), w)


@pattern(fused=0, why="the dim that the matmul sums over is gathered, and others than matmuls use what is gathered too")
def gathered_inner_dim_that_is_used_too(x, y, w, v, s):
    full = gather_along(x, 1)
    return aten.mm(full, aten.cat([w, v])), full


@pattern(fused=0, why="uses what has not arrived")
def gathered_and_used_before_it_arrives(x, y, w, v, s):
    started = collectives.all_gather_into_tensor(x, 2, GROUP)
    return aten.mm(wait(started), w), aten.empty_like(started).shape[0]


# Reduce-scatters.


@pattern()
def scattered_rows(x, y, w, v, s):
    return scatter(aten.mm(x, w))


@pattern()
def scattered_average(x, y, w, v, s):
    return scatter(aten.mm(x, w), "avg")


@pattern()
def scattered_by_split_and_cat(x, y, w, v, s):
    return scatter_along(rows_times(s, w), 2)


@pattern()
def scattered_by_slices_and_cat(x, y, w, v, s):
    product = rows_times(s, w)
    return scatter(aten.cat([product[:, :, :4], product[:, :, 4:]]))


@pattern()
def scattered_columns(x, y, w, v, s):
    return scatter_along(aten.mm(x, w), 1)


@pattern()
def scattered_sum_of_products(x, y, w, v, s):
    return scatter(aten.add.Tensor(aten.mm(x, w), aten.mm(y, v)))


@pattern()
def scattered_as_shorter_floats(x, y, w, v, s):
    return aten._to_copy(scatter(aten._to_copy(aten.mm(x, w), dtype=torch.bfloat16)), dtype=torch.float32)


@pattern()
def scattered_and_saved_for_backward(x, y, w, v, s):
    started = collectives.reduce_scatter_tensor(aten.mm(x, w), "sum", 2, GROUP)
    return wait(started), started


@pattern()
def scattered_by_split_and_saved_for_backward(x, y, w, v, s):
    product = rows_times(s, w)
    started = collectives.reduce_scatter_tensor(aten.cat([*aten.split.Tensor(product, 4, 2)]), "sum", 2, GROUP)
    return wait(started), started


@pattern()
def scattered_with_other_leading_dims_than_the_product(x, y, w, v, s):
    product = aten.reshape(aten.mm(aten.reshape(s, [48, 16]), w), [4, 12, 8])
    return scatter(product)


@pattern(fused=0, why="the shards are joined in another order")
def scattered_in_another_order(x, y, w, v, s):
    first, second = aten.split.Tensor(aten.mm(x, w), 2)
    return scatter(aten.cat([second, first]))


@pattern(fused=0, why="it reduces by max")
def scattered_maximum(x, y, w, v, s):
    return scatter(aten.mm(x, w), "max")


@pattern(fused=0, why="is computed by aten::relu, not by a matmul")
def scattered_after_another_operator(x, y, w, v, s):
    return scatter(aten.relu(aten.mm(x, w)))


@pattern(fused=0, why="is used by others too")
def scattered_and_used_too(x, y, w, v, s):
    product = aten.mm(x, w)
    return scatter(product), aten.neg(product)


# All-reduces.


@pattern()
def reduced_product(x, y, w, v, s):
    return wait(collectives.all_reduce(aten.mm(x, w), "sum", GROUP))


@pattern(fused=2)
def reduced_product_that_others_multiply(x, y, w, v, s):
    sum = wait(collectives.all_reduce(aten.mm(x, w), "sum", GROUP))
    return aten.mm(sum, aten.permute(v, [1, 0]))


@pattern(fused=2)
def a_layer_of_a_sequence_parallel_model(x, y, w, v, s):
    hidden = aten.relu(aten.mm(gather(x), w))
    return scatter(aten.mm(hidden, aten.permute(v, [1, 0])))


@pattern(fused=0, why="it is written to in between")
def gathered_from_memory_that_is_written(x, y, w, v, s):
    mine = aten.clone(x)
    full = gather(mine)
    mine.add_(1)
    return aten.mm(full, w), mine


# Scaled matmuls, of numbers with 8 bits.


def eight_bits(x):
    return aten._to_copy(x, dtype=torch.float8_e4m3fn)


def gather_eight_bits(x, dim=0):
    pieces = aten.split.Tensor(gather(aten.view.dtype(x, torch.uint8)), x.shape[0])
    return aten.view.dtype(aten.cat([*pieces], dim), torch.float8_e4m3fn)


def scale(x):
    return aten.div.Tensor(aten.amax(aten.abs(x)), 8)


def scaled(x, w, x_scale=None):
    """x as 8 bits times w [16, 8] as 8 bits, twice as wide: both dims of a matrix have to be multiples of 16."""
    columns = aten.permute(eight_bits(aten.cat([w, w], 1)), [1, 0])
    columns = aten.permute(aten.clone(columns, memory_format=torch.contiguous_format), [1, 0])
    return aten._scaled_mm(x, columns, scale(w) if x_scale is None else x_scale, scale(w), None, None, torch.bfloat16)


@pattern()
def gathered_rows_of_eight_bits(x, y, w, v, s):
    return scaled(gather_eight_bits(eight_bits(x)), w)


@pattern()
def gathered_rows_of_eight_bits_for_several_matmuls(x, y, w, v, s):
    full = gather_eight_bits(eight_bits(x))
    x_scale = scale(w)
    return scaled(full, w, x_scale), scaled(full, v, x_scale)


@pattern()
def gathered_eight_bits_of_four_dims(x, y, w, v, s):
    full = gather_eight_bits(eight_bits(s), 1)
    return aten.reshape(scaled(aten.reshape(full, [-1, 16]), w), [2, 6, 8, 16])


@pattern()
def gathered_eight_bits_with_another_scale_for_each_matmul(x, y, w, v, s):
    full = gather_eight_bits(eight_bits(x))
    return scaled(full, w), scaled(full, v)


@pattern()
def gathered_for_a_matmul_of_each_kind(x, y, w, v, s):
    full = gather_eight_bits(eight_bits(x))
    return scaled(full, w), aten.mm(aten._to_copy(full, dtype=torch.float32), w)


@pattern(fused=0, why="it is scaled, and the dim that it sums over is gathered")
def gathered_inner_dim_of_eight_bits(x, y, w, v, s):
    full = gather_eight_bits(eight_bits(x[:, :8]), 1)
    return scaled(full, w)


@pattern()
def scattered_product_of_eight_bits(x, y, w, v, s):
    return scatter(scaled(eight_bits(x), w))


@pattern()
def scattered_product_of_eight_bits_and_four_dims(x, y, w, v, s):
    product = aten.reshape(scaled(aten.reshape(eight_bits(s), [-1, 16]), w), [2, 3, 8, 16])
    return scatter_along(product, 2)


@pattern(fused=0, why="its matmul is scaled, and its columns are scattered")
def scattered_columns_of_eight_bits(x, y, w, v, s):
    return scatter_along(scaled(eight_bits(x), w), 1)


@pattern(fused=0, why="several matmuls are added up, and one of them is scaled")
def scattered_sum_of_scaled_products(x, y, w, v, s):
    return scatter(aten.add.Tensor(scaled(eight_bits(x), w), scaled(eight_bits(y), v)))


def inputs(rank):
    generator = torch.Generator().manual_seed(7)
    w, v = torch.randn(16, 8, generator=generator), torch.randn(16, 8, generator=generator)
    generator.manual_seed(rank)
    x, y, s = (torch.randn(shape, generator=generator) for shape in ((4, 16), (4, 16), (2, 3, 8, 16)))
    return x, y, w, v, s
