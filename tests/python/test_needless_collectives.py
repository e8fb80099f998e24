"""Operators on sharded tensors that need fewer collectives than gathering their inputs."""

import pytest
import torch
import weft
from weft import Partial, Replicate, Shard

X = torch.arange(32.0).reshape(4, 8) / 7


def on_two_ranks(program):
    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        program(mesh, lambda t, p: weft.distribute_tensor(t.clone(), mesh, [p]))

    weft.run_on_ranks(2, on_rank)


@pytest.mark.parametrize("placement", [Shard(0), Shard(1)])
def test_counts_by_given_bins_are_terms(placement):
    def program(mesh, D):
        x = D(X, placement)
        with weft.strict():
            counts = x.histc(4, 0, 5)
        assert counts.placements == (Partial(),)
        torch.testing.assert_close(counts.full_tensor(), X.histc(4, 0, 5))
        torch.testing.assert_close(x.histc(4, 1, 2).full_tensor(), X.histc(4, 1, 2))
        torch.testing.assert_close(x.histc(4).full_tensor(), X.histc(4))
        torch.testing.assert_close(x.histc(4, 3, 3).full_tensor(), X.histc(4, 3, 3))

    on_two_ranks(program)


def test_gather_along_a_sharded_dim_picks_what_a_rank_holds():
    index = torch.tensor([[1], [0], [7], [2]])

    def program(mesh, D):
        x = D(X, Shard(1)).requires_grad_()
        with weft.strict():
            picked = x.gather(1, D(index, Replicate()))
        assert picked.placements == (Partial(),)
        torch.testing.assert_close(picked.full_tensor(), X.gather(1, index))
        (picked * 2).sum().backward()
        torch.testing.assert_close(x.grad.full_tensor(), torch.zeros_like(X).scatter_(1, index, 2.0))
        many = index.expand(4, 16)
        torch.testing.assert_close(x.gather(1, D(many, Replicate())).full_tensor(), X.gather(1, many))
        with pytest.raises(Exception, match="out of bounds"):
            x.gather(1, D(index + 8, Replicate())).full_tensor()

    on_two_ranks(program)


def test_logsumexp_over_a_sharded_dim_reduces_twice_or_gathers_what_is_small():
    many = torch.linspace(-2, 2, 4096 * 64).reshape(4096, 64)

    def program(mesh, D):
        for values, calls in ((X, 1), (many, 2)):
            for each in (values, torch.where(values > 1, values, float("-inf")), values * 0 - float("inf"), values.log()):
                x = D(each, Shard(0))
                with weft.comm_debug() as comm:
                    x.logsumexp(0)
                assert comm.calls == calls
                torch.testing.assert_close(x.logsumexp(0).full_tensor(), each.logsumexp(0), equal_nan=True)
                torch.testing.assert_close(x.logsumexp((0, 1)).full_tensor(), each.logsumexp((0, 1)), equal_nan=True)
        number = D(X, Shard(0)).sum()
        torch.testing.assert_close(number.logsumexp(-1).full_tensor(), X.sum().logsumexp(-1))

    on_two_ranks(program)


ALONG_A_DIM = {
    "softmax": lambda x: x.softmax(0),
    "cumsum": lambda x: x.cumsum(0),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
    "cummax": lambda x: x.cummax(0).values,
    "topk": lambda x: x.topk(2, dim=0).values,
    "kthvalue": lambda x: x.kthvalue(2, dim=0).values,
    "mode": lambda x: x.mode(0).values,
}


@pytest.mark.parametrize("name", ALONG_A_DIM)
def test_what_needs_all_of_a_small_sharded_dim_gathers_it(name):
    """One collective, after which the result has any layout for nothing. Shards of a large tensor go to another dim."""
    large = torch.linspace(-1, 1, 256 * 1024).reshape(256, 1024)

    def program(mesh, D):
        for values, placement in ((X, Replicate()), (large, Shard(1))):
            x = D(values, Shard(0))
            with weft.comm_debug() as comm:
                y = ALONG_A_DIM[name](x)
            assert comm.calls == 1
            expected = Shard(0) if name in ("kthvalue", "mode") and placement == Shard(1) else placement
            assert y.placements == (expected,)
            torch.testing.assert_close(y.full_tensor(), ALONG_A_DIM[name](values))

    on_two_ranks(program)


@pytest.mark.parametrize("order, op", [(float("inf"), "max"), (float("-inf"), "min"), (1, "sum"), (0, "sum")])
def test_a_norm_without_a_root_is_reduced_where_it_is_read(order, op):
    def program(mesh, D):
        x = D(X, Shard(0))
        with weft.strict():
            norm = torch.linalg.vector_norm(x, order)
            rows = torch.linalg.vector_norm(x, order, dim=0, keepdim=True)
        assert norm.placements == rows.placements == (Partial(op),)
        torch.testing.assert_close(norm.full_tensor(), torch.linalg.vector_norm(X, order))
        torch.testing.assert_close(rows.full_tensor(), torch.linalg.vector_norm(X, order, dim=0, keepdim=True))
        leaf, plain = x.detach().requires_grad_(), X.clone().requires_grad_()
        with weft.comm_debug() as comm:
            (torch.linalg.vector_norm(leaf, order) * 2).backward()
        assert comm.calls == (2 if order in (float("inf"), float("-inf")) else 0), "the value, and how often it occurs"
        (torch.linalg.vector_norm(plain, order) * 2).backward()
        torch.testing.assert_close(leaf.grad if order == 0 else leaf.grad.full_tensor(), plain.grad)

    on_two_ranks(program)


def test_a_dim_of_one_element_keeps_its_shard_in_a_view():
    def program(mesh, D):
        row = D(X[:1], Shard(0))
        with weft.strict():
            assert row.view(1, 2, 4).placements == (Shard(0),)
            assert row.view(1, 8, 1).placements == (Shard(0),)
            assert D(X[:1, :1], Shard(1)).view(1, 1).placements == (Shard(1),)
        torch.testing.assert_close(row.view(1, 2, 4).full_tensor(), X[:1].view(1, 2, 4))
        torch.testing.assert_close(row.view(8).full_tensor(), X[0])
        torch.testing.assert_close(row.view(2, 4, 1).full_tensor(), X[0].view(2, 4, 1))

    on_two_ranks(program)


def test_a_tensor_of_another_size_is_made_without_reading():
    def program(mesh, D):
        for x in (D(X, Shard(0)), D(X, Shard(0)).sum(0)):
            with weft.strict():
                assert x.new_full((3, 5), 2.0).placements == (Replicate(),)
                x.new_zeros((3, 5)), x.new_empty((3, 5)), x.new_ones((3, 5))

    on_two_ranks(program)


def test_bools_are_shifted():
    bools, amounts = torch.tensor([True, False, True]), torch.tensor([1, 2, 3])

    def program(mesh, D):
        for placement in (Shard(0), Replicate()):
            x = D(bools, placement)
            torch.testing.assert_close((x << 1).full_tensor(), bools << 1)
            torch.testing.assert_close((x >> 1).full_tensor(), bools >> 1)
            shifted = x << D(amounts, placement)
            torch.testing.assert_close(shifted.full_tensor(), bools << amounts)

    on_two_ranks(program)


def test_the_rank_of_a_sharded_matrix():
    matrix = torch.diag(torch.tensor([3.0, 0, 1, 2]))

    def program(mesh, D):
        for placement in (Shard(0), Shard(1), Replicate()):
            x = D(matrix, placement)
            assert torch.linalg.matrix_rank(x).full_tensor() == 3
            assert torch.linalg.matrix_rank(x, hermitian=True).full_tensor() == 3
            assert torch.linalg.matrix_rank(x, atol=1.5, rtol=0.0).full_tensor() == 2

    on_two_ranks(program)
