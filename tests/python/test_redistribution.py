"""ExplicitRedistributionContext, implicit_replication, and redistribution to another mesh."""

import logging

import pytest
import torch
import weft
from weft import ExplicitRedistributionContext, Partial, Replicate, Shard

PLAIN = torch.arange(32.0).reshape(8, 4)


def on_mesh(program, ranks=4):
    return weft.run_on_ranks(ranks, lambda rank: program(weft.init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))))


def operands(mesh):
    x = weft.distribute_tensor(PLAIN, mesh, [Shard(0)])
    w = weft.distribute_tensor(PLAIN.t(), mesh, [Shard(0)])
    return x, w


def test_an_operator_that_redistributes_raises():
    def program(mesh):
        x, w = operands(mesh)
        with ExplicitRedistributionContext():
            with pytest.raises(RuntimeError, match=r"\[aten::matmul\] Implicit redistribution occurred"):
                x @ w
            x @ w.redistribute(placements=[Replicate()])
            with ExplicitRedistributionContext(enable=False):
                x @ w
            with pytest.raises(RuntimeError, match="Implicit redistribution"):
                x @ w
        return (x @ w).full_tensor()

    for product in on_mesh(program):
        torch.testing.assert_close(product, PLAIN @ PLAIN.t())


class Heard(logging.Handler):
    def __init__(self):
        super().__init__()
        self.messages = []

    def emit(self, record):
        self.messages.append(record.getMessage())


def test_a_warning_is_logged_and_the_operator_runs():
    def program(mesh):
        x, w = operands(mesh)
        with ExplicitRedistributionContext(mode="warn"):
            x + x
            return (x @ w).full_tensor()

    logger, heard = logging.getLogger("torch.distributed.tensor._utils"), Heard()
    logger.addHandler(heard)
    try:
        for product in on_mesh(program, ranks=2):
            torch.testing.assert_close(product, PLAIN @ PLAIN.t())
    finally:
        logger.removeHandler(heard)
    assert len(heard.messages) == 2 and "Implicit redistribution occurred" in heard.messages[0]


def test_a_strict_context_takes_no_redistribution_that_is_free_either():
    def program(mesh):
        x = weft.distribute_tensor(PLAIN, mesh, [Shard(0)])
        y = weft.distribute_tensor(PLAIN, mesh, [Replicate()])
        with ExplicitRedistributionContext():
            x + y
        with ExplicitRedistributionContext(strict=True):
            x + x
            with pytest.raises(RuntimeError, match="Implicit redistribution"):
                x + y

    on_mesh(program, ranks=2)


def test_it_holds_in_backward():
    def program(mesh):
        x = weft.distribute_tensor(PLAIN, mesh, [Shard(0)]).requires_grad_()
        rows, columns = (weft.distribute_tensor(PLAIN, mesh, [Shard(dim)]) for dim in (0, 1))

        class AddsColumns(torch.autograd.Function):
            @staticmethod
            def forward(context, tensor):
                return tensor.clone()

            @staticmethod
            def backward(context, gradient):
                return gradient + (rows + columns)

        loss = AddsColumns.apply(x).sum()
        with ExplicitRedistributionContext():
            with pytest.raises(RuntimeError, match="Implicit redistribution"):
                loss.backward(retain_graph=True)
            with ExplicitRedistributionContext(enable=False):
                loss.backward(retain_graph=True)
        return x.grad.full_tensor()

    for gradient in on_mesh(program, ranks=2):
        torch.testing.assert_close(gradient, 1 + 2 * PLAIN)


def test_another_mode_is_an_error():
    with pytest.raises(RuntimeError, match='mode must be "raise" or "warn", but got \'print\''):
        ExplicitRedistributionContext(mode="print")


def test_implicit_replication_takes_plain_tensors():
    @weft.implicit_replication()
    def added(x, plain):
        return x + plain

    def program(mesh):
        x = weft.distribute_tensor(PLAIN, mesh, [Shard(0)])
        with pytest.raises(ValueError, match="plain tensor"):
            torch.add(x, PLAIN)
        with weft.implicit_replication():
            assert torch.equal((x + PLAIN).full_tensor(), 2 * PLAIN)
        assert torch.equal(added(x, PLAIN).full_tensor(), 2 * PLAIN)

    on_mesh(program, ranks=2)


@pytest.mark.parametrize("source", [Shard(0), Shard(1), Replicate(), Partial()])
def test_a_tensor_goes_to_another_mesh_and_its_gradient_back(source):
    def program(mesh):
        grid = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "mp"))
        x = weft.distribute_tensor(PLAIN, mesh, [source]).requires_grad_()
        y = x.redistribute(grid, [Shard(1), Shard(0)])
        assert y.device_mesh == grid and y.placements == (Shard(1), Shard(0))
        (y * weft.distribute_tensor(PLAIN, grid, [Shard(1), Shard(0)])).sum().backward()
        assert x.grad.device_mesh == mesh and torch.equal(x.grad.full_tensor(), PLAIN)
        return y.full_tensor()

    for full in on_mesh(program):
        assert torch.equal(full, PLAIN)


def test_a_tensor_goes_to_other_ranks():
    def program(mesh):
        first, last = (weft.DeviceMesh("cpu", ranks, mesh_dim_names=("pp",)) for ranks in ([0, 1], [2, 3]))
        x = weft.distribute_tensor(PLAIN, first, [Shard(0)])
        y = x.redistribute(last, [Shard(1)])
        if mesh.get_rank() >= 2:
            assert torch.equal(y.to_local(), PLAIN.chunk(2, 1)[mesh.get_rank() - 2])
        else:
            assert y.to_local().numel() == 0

    on_mesh(program)
