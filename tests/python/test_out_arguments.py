"""The out= forms of PyTorch's OpInfo database: a result is stored in a tensor of any layout."""

import os
import sys

import pytest
import torch
import weft
from weft import Partial, Replicate, Shard

sys.path.insert(0, os.path.dirname(__file__))
from op_db_cases import dtype_of, name_of, op_db, tree

# What they store is drawn, is not initialised, or is sparse.
NOT_COMPARED = {
    "bernoulli", "empty", "empty_permuted", "multinomial", "normal", "normal.number_mean", "rand", "randint", "randn",
    "sparse.sampled_addmm",
}  # fmt: skip
GROUPS = 8


def shard(tensor, which):
    return Replicate() if tensor.dim() == 0 or which == "replicated" else Shard(0 if which == "first" else tensor.dim() - 1)


def can_be_terms(tensor):
    """Numbers of eight bits cannot be added."""
    return tensor.dtype.is_floating_point and tensor.dtype.itemsize > 1


def layouts_of(result):
    """Of a tensor in which a result is stored."""
    yield from (shard(result, which) for which in ("replicated", "first", "last"))
    if can_be_terms(result):
        yield Partial()


def case_of(op):
    """The first sample with a result that plain tensors store in a tensor of its shape: (sample, results)."""
    for sample in op.sample_inputs("cpu", dtype_of(op)):
        try:
            results = op(sample.input, *sample.args, **sample.kwargs)
            stored = tree.tree_map(torch.zeros_like, results)
            op(sample.input, *sample.args, **sample.kwargs, out=stored)
        except (RuntimeError, TypeError):
            continue
        if all(result.numel() for result in tree.tree_leaves(results)):
            return sample, results
    return None


def expect_stored(op, sample, results, which, layout):
    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))

        def distributed(value):
            is_tensor = isinstance(value, torch.Tensor)
            return weft.distribute_tensor(value.clone(), mesh, [shard(value, which)]) if is_tensor else value

        def store_for(result):
            own = layout if not isinstance(layout, Shard) or layout.dim < result.dim() else Replicate()
            own = Replicate() if isinstance(own, Partial) and not can_be_terms(result) else own
            return weft.distribute_tensor(torch.zeros_like(result), mesh, [Replicate()]).redistribute(placements=[own])

        input, args, kwargs = tree.tree_map(distributed, (sample.input, sample.args, sample.kwargs))
        stores = tree.tree_map(store_for, results)
        before = [store.placements for store in tree.tree_leaves(stores)]
        op(input, *args, **kwargs, out=stores)
        for store, placements, result in zip(tree.tree_leaves(stores), before, tree.tree_leaves(results), strict=True):
            assert store.placements == placements
            tolerance = {"rtol": 1e-4, "atol": 1e-4} if result.dtype in (torch.float32, torch.complex64) else {}
            torch.testing.assert_close(store.full_tensor(), result, equal_nan=True, **tolerance)

    weft.run_on_ranks(2, on_rank)


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_layout_is_stored_in(group):
    count = 0
    for op in [op for op in op_db if op.supports_out and dtype_of(op)][group::GROUPS]:
        case = None if name_of(op) in NOT_COMPARED else case_of(op)
        for which in ("replicated", "first", "last") if case else ():
            for layout in layouts_of(tree.tree_leaves(case[1])[0]):
                try:
                    expect_stored(op, *case, which, layout)
                except Exception as error:
                    raise AssertionError(f"{name_of(op)}(out=) of {which} tensors in {layout}") from error
                count += 1
    assert count > 100
