"""The dtype of a distributed tensor is that of its local tensors, and both are those of a single device."""

import pytest
import torch
import torch.nn.functional as F
import weft
from weft import Replicate, Shard

PLACEMENTS = [Replicate(), Shard(0)]


def run(program):
    """Runs program(distribute) on two ranks, for every placement; raises what a rank raises."""
    for placement in PLACEMENTS:

        def rank_program(rank):
            mesh = weft.init_device_mesh("cpu", (2,))
            program(lambda tensor: weft.distribute_tensor(tensor, mesh, [placement]))

        weft.run_on_ranks(2, rank_program)


def check_same(actual, expected):
    assert actual.dtype == expected.dtype
    assert actual.to_local().dtype == expected.dtype
    torch.testing.assert_close(actual.full_tensor(), expected)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x / 2,
        lambda x: x * 1.5,
        lambda x: torch.sin(x),
        lambda x: (x > 2) * 2.5,
        lambda x: x.logsumexp(0),
        lambda x: (x / 2).sum(),
    ],
)
def test_the_default_dtype_may_change_between_two_calls(function):
    numbers = torch.arange(6)
    outer = torch.get_default_dtype()
    try:
        for dtype in (torch.float32, torch.float64, torch.float32):
            torch.set_default_dtype(dtype)
            expected = function(numbers)
            assert expected.dtype == dtype
            run(lambda distribute: check_same(function(distribute(numbers)), expected))
    finally:
        torch.set_default_dtype(outer)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_statistics_of_norms_have_the_dtype_of_the_device(dtype):
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    weight = torch.ones(8, dtype=dtype)
    expected = torch.native_layer_norm(x, [8], weight, None, 1e-5)

    def program(distribute):
        for actual, plain in zip(torch.native_layer_norm(distribute(x), [8], distribute(weight), None, 1e-5), expected):
            check_same(actual, plain)

    run(program)


def test_a_layer_norm_in_bf16_takes_a_gradient_of_another_layout():
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0)).bfloat16()
    target = x.roll(1, 0)

    def gradient(x, target):
        x = x.detach().requires_grad_()
        (F.layer_norm(x, (8,)) - target).pow(2).mean().backward()
        return x.grad

    expected = gradient(x, target)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        actual = gradient(
            weft.distribute_tensor(x, mesh, [Replicate()]), weft.distribute_tensor(target, mesh, [Shard(0)])
        )
        torch.testing.assert_close(actual.full_tensor(), expected)

    weft.run_on_ranks(2, rank_program)


def test_einsum_under_autocast_is_that_of_a_single_device():
    a, b = (torch.arange(24.0).view(4, 6) - 12) / 8, (torch.arange(24.0).view(4, 6) - 9) / 8

    def with_gradient(a, b):
        a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
        outer = torch.einsum("ij,kj->ik", a, b)  # the same call, prepared without autocast
        with torch.autocast("cpu", dtype=torch.bfloat16):
            product = torch.einsum("ij,kj->ik", a, b)
        product.float().sum().backward()
        return outer, product, a.grad, b.grad

    expected = with_gradient(a, b)

    def program(distribute):
        for actual, plain in zip(with_gradient(distribute(a), distribute(b)), expected):
            check_same(actual.detach(), plain.detach())

    run(program)


def test_powers_of_booleans():
    mask = torch.arange(6) % 2 == 0
    run(lambda distribute: check_same(torch.pow(distribute(mask), True), torch.pow(mask, True)))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.bool, torch.int64, torch.complex64])
def test_logsumexp_of_every_dtype(dtype):
    values = torch.tensor([[1, 200], [5, 100], [0, 50], [3, 120]])
    values = (values % 128).to(dtype) if dtype == torch.int8 else values.to(dtype)
    run(lambda distribute: check_same(distribute(values).logsumexp(0), values.logsumexp(0)))


def test_gradients_of_a_complex_linear_layer():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 6, dtype=torch.complex64, generator=generator)
    w = torch.randn(8, 6, dtype=torch.complex64, generator=generator)
    b = torch.randn(8, dtype=torch.complex64, generator=generator)

    def gradients(*tensors):
        leaves = [tensor.detach().requires_grad_() for tensor in tensors]
        F.linear(*leaves).abs().pow(2).sum().backward()
        return [leaf.grad for leaf in leaves]

    expected = gradients(x, w, b)

    def program(distribute):
        for actual, plain in zip(gradients(distribute(x), distribute(w), distribute(b)), expected):
            check_same(actual, plain)

    run(program)


def test_einsum_works_on_meta():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = weft.distribute_tensor(torch.ones(4, 6, device="meta"), mesh, [Shard(0)])
        assert torch.einsum("ij,kj->ik", x, x).shape == (4, 4)

    weft.run_on_ranks(2, rank_program)
