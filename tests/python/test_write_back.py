"""Writes to a tensor whose own layout cannot hold the result: the operator runs in another layout, and the result is
redistributed back into the memory of the written tensor."""

import pytest
import torch
import weft
from weft import Partial, Replicate, Shard

X = torch.arange(1.0, 25.0).reshape(4, 6) / 7
Y = torch.linspace(-1, 1, 24).reshape(4, 6)
INDEX = torch.tensor([[3, 0, 2, 1, 0, 3]])
WRITES = {
    "cumsum_": lambda x, y, i: x.cumsum_(0).cumsum_(1),
    "cumprod_": lambda x, y, i: x.cumprod_(0).cumprod_(1),
    "tril_": lambda x, y, i: x.tril_().triu_(),
    "scatter_": lambda x, y, i: x.scatter_(0, i, 3.0).scatter_(1, i, 2.0),
    "scatter_add_": lambda x, y, i: x.scatter_add_(0, i, y),
    "index_fill_": lambda x, y, i: x.index_fill_(0, i[0, :2], 3.0).index_fill_(1, i[0, :2], 2.0),
    "index_put_": lambda x, y, i: x.index_put_((i[0, :2], i[0, 2:4]), y[0, 0]),
    "index_add_": lambda x, y, i: x.index_add_(0, i[0, :4], y),
    "masked_fill_": lambda x, y, i: x.masked_fill_(y > 0, 5.0),
    "renorm_": lambda x, y, i: x.renorm_(2, 0, 1.0),
    "exp_": lambda x, y, i: x.exp_(),
    "clamp_": lambda x, y, i: x.clamp_(max=1),
    "add_(True)": lambda x, y, i: x.add_(True),
    "add_(number)": lambda x, y, i: x.add_(1.5),
    "add_(tensor)": lambda x, y, i: x.add_(y),
    "mul_(tensor)": lambda x, y, i: x.mul_(y),
    "fill_": lambda x, y, i: x.fill_(2),
    "copy_": lambda x, y, i: x.copy_(y),
    "mul(out=)": lambda x, y, i: torch.mul(y, y, out=x),
    "matmul(out=)": lambda x, y, i: torch.mm(y[:, :4], y, out=x),
    "cat(out=)": lambda x, y, i: torch.cat([y[:2], y[2:]], out=x),
    "hstack(out=)": lambda x, y, i: torch.hstack([y[:, :3], y[:, 3:]], out=x),
    "cumsum(out=)": lambda x, y, i: torch.cumsum(y, 0, out=x),
    "foreach": lambda x, y, i: (torch._foreach_exp_([x]), torch._foreach_add_([x], [y]), x)[-1],
}
LAYOUTS = {
    "S(0)": Shard(0), "S(1)": Shard(1), "R": Replicate(), "P(sum)": Partial("sum"), "P(avg)": Partial("avg"),
    "P(max)": Partial("max"), "P(product)": Partial("prod"),
}  # fmt: skip


def distributed(tensor, mesh, placement):
    if not isinstance(placement, Partial):
        return weft.distribute_tensor(tensor.clone(), mesh, [placement])
    return weft.distribute_tensor(tensor.clone(), mesh, [Replicate()]).redistribute(mesh, [placement])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("write", WRITES)
def test_every_layout_takes_every_write(write, layout):
    """Also views that share the memory, autograd's versions, and inference mode."""
    program = WRITES[write]
    want = program(X.clone(), Y, INDEX)

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (3,))
        for other in ("S(0)", "R"):
            for mode in (torch.no_grad, torch.inference_mode):
                with mode():
                    x = distributed(X, mesh, LAYOUTS[layout])
                    y = distributed(Y, mesh, LAYOUTS[other])
                    index = distributed(INDEX, mesh, Replicate())
                    alias, view, memory = x.detach(), x.t(), x.to_local()
                    version = None if x.is_inference() else x._version
                    result = program(x, y, index)
                    assert result is x
                    assert x.placements == (LAYOUTS[layout],)
                    assert x.to_local().data_ptr() == memory.data_ptr()
                    assert version is None or x._version > version
                    for seen in (x, alias, view.t()):
                        torch.testing.assert_close(seen.full_tensor(), want)

    weft.run_on_ranks(3, on_rank)


@pytest.mark.parametrize("layout", ["S(0)", "S(1)", "R", "P(sum)", "P(avg)"])
def test_gradients_flow_through_writes(layout):
    def program(x, y, index):
        x = x * 2
        y = y * 3
        x.cumsum_(0).mul_(y).tril_().scatter_(0, index, 3.0).add_(y.exp())
        x.t().cumsum_(1)
        return x.sum()

    want = [t.clone().requires_grad_() for t in (X / 9, Y)]
    program(*want, INDEX).backward()

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        leaves = [distributed(t, mesh, LAYOUTS[layout]).requires_grad_() for t in (X / 9, Y)]
        program(*leaves, distributed(INDEX, mesh, Replicate())).backward()
        for leaf, plain in zip(leaves, want):
            torch.testing.assert_close(leaf.grad.full_tensor(), plain.grad)

    weft.run_on_ranks(2, on_rank)


def test_a_saved_value_that_is_written_back_is_noticed():
    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = distributed(X, mesh, Shard(0)).requires_grad_()
        y = x.exp()
        y.cumsum_(0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()

    weft.run_on_ranks(2, on_rank)


def test_a_copied_view_notices_that_its_base_was_written_back():
    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = distributed(X, mesh, Shard(0))
        row = x[1]
        x.cumsum_(0)
        with pytest.raises(ValueError, match="the tensor it was taken of has changed since"):
            row.sum()

    weft.run_on_ranks(2, on_rank)


def test_explain_shows_both_ways_and_strict_refuses():
    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        x = distributed(X, mesh, Shard(0))
        with weft.explain() as log:
            x.cumsum_(0)
        assert "0: all_gather(tp: S(0) -> R)" in str(log)
        assert "0 written back: slice(tp: R -> S(0))" in str(log)
        with weft.strict(), pytest.raises(ValueError, match="would communicate"):
            x.cumsum_(0)
        total = x.sum(0)
        with weft.strict(), weft.explain() as log:
            total.fill_(3)
            torch.neg(weft.full((6,), -2.0, device_mesh=mesh, placements=[Replicate()]), out=total)
            torch.mul(total, 1.0, out=total)
        assert "written back: make_partial(tp: R -> P(sum))" in str(log)
        torch.testing.assert_close(total.full_tensor(), torch.full((6,), 2.0))

    weft.run_on_ranks(2, on_rank)


def test_running_statistics_of_another_layout_are_updated():
    norm = torch.nn.functional.batch_norm
    mean, var = torch.zeros(6), torch.ones(6)
    want = norm(X, mean, var, training=True)

    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        for layout in (Shard(0), Replicate()):
            own = [distributed(torch.zeros(6), mesh, layout), distributed(torch.ones(6), mesh, layout)]
            got = norm(distributed(X, mesh, Replicate()), *own, training=True)
            torch.testing.assert_close(got.full_tensor(), want)
            torch.testing.assert_close([t.full_tensor() for t in own], [mean, var])

    weft.run_on_ranks(2, on_rank)


def test_hard_gumbel_softmax_over_a_sharded_dim():
    def on_rank(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        weft.manual_seed(1)
        x = distributed(X, mesh, Shard(1)).requires_grad_()
        hard = torch.nn.functional.gumbel_softmax(x, hard=True)
        torch.testing.assert_close(hard.full_tensor().sum(1), torch.ones(4))
        assert ((hard.full_tensor() == 0) | (hard.full_tensor() == 1)).all()
        hard.sum().backward()
        assert x.grad.placements == (Shard(1),)

    weft.run_on_ranks(2, on_rank)
