"""Ragged shards: a placement that gives every rank its own number of rows."""

import pickle

import pytest
import torch
import weft
from torch.nn import functional as F
from weft import Partial, RaggedShard, Replicate, Shard

LENGTHS = (3, 0, 5)
ROWS = torch.arange(24.0).view(8, 3)


def on_mesh(program):
    return weft.run_on_ranks(len(LENGTHS), lambda rank: program(weft.init_device_mesh("cpu", (len(LENGTHS),))))


def test_is_a_value_with_a_text():
    ragged = RaggedShard(0, LENGTHS)
    assert str(ragged) == "S(0|3:0:5)"
    assert repr(ragged) == "RaggedShard(dim=0, lengths=(3, 0, 5))"
    assert (ragged.dim, ragged.lengths) == (0, LENGTHS)
    assert ragged == RaggedShard(0, [3, 0, 5]) and hash(ragged) == hash(RaggedShard(0, [3, 0, 5]))
    assert ragged != RaggedShard(0, (5, 0, 3)) and ragged != Shard(0)
    assert pickle.loads(pickle.dumps(ragged)) == ragged
    assert not ragged.is_shard() and not ragged.is_replicate()
    with pytest.raises(ValueError, match="one length of at least 0 per member is required"):
        RaggedShard(0, (1, -1))


def test_every_rank_holds_its_rows():
    def program(mesh):
        t = weft.distribute_tensor(ROWS, mesh, [RaggedShard(0, LENGTHS)])
        rank = mesh.get_local_rank()
        begin = sum(LENGTHS[:rank])
        assert torch.equal(t.to_local(), ROWS[begin : begin + LENGTHS[rank]])
        assert torch.equal(t.full_tensor(), ROWS)
        for placement in (Replicate(), Shard(0), Shard(1), RaggedShard(1, (0, 1, 2))):
            assert torch.equal(t.redistribute(placements=[placement]).full_tensor(), ROWS)
        terms = weft.from_local(ROWS / 3, mesh, [Partial()])
        torch.testing.assert_close(terms.redistribute(placements=t.placements).to_local(), t.to_local())
        made = weft.from_local(t.to_local(), mesh, t.placements)
        assert made.shape == ROWS.shape and torch.equal(made.full_tensor(), ROWS)
        made = weft.from_local(t.to_local(), mesh, t.placements, run_check=True)
        assert torch.equal(made.full_tensor(), ROWS)
        assert t._spec.placements == t.placements and t._spec.shape == ROWS.shape and t._spec.shard_order == ()
        with pytest.raises(ValueError, match="a ragged shard requires one length for each of the 3 ranks"):
            weft.distribute_tensor(ROWS, mesh, [RaggedShard(0, (4, 4))])

    on_mesh(program)


OPTIMIZERS = [
    lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    lambda p: torch.optim.AdamW(p, lr=0.1, foreach=False),
    lambda p: torch.optim.AdamW(p, lr=0.1, fused=True),
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    lambda p: torch.optim.Adagrad(p, lr=0.1),
]


def test_elementwise_operators_and_optimizers_keep_it():
    def program(mesh):
        layout = [RaggedShard(0, LENGTHS)]
        for make in OPTIMIZERS:
            plain = torch.nn.Parameter(ROWS.clone())
            ragged = torch.nn.Parameter(weft.distribute_tensor(ROWS, mesh, layout))
            plain.grad, ragged.grad = ROWS.sin(), weft.distribute_tensor(ROWS.sin(), mesh, layout)
            optimizers = make([plain]), make([ragged])
            with weft.comm_debug() as log:
                for _ in range(3):
                    for optimizer in optimizers:
                        optimizer.step()
            assert log.calls == 0
            assert ragged.placements == tuple(layout)
            torch.testing.assert_close(ragged.full_tensor(), plain)
        t = weft.distribute_tensor(ROWS, mesh, layout)
        with weft.comm_debug() as log:
            result = (t * 2 + t.exp()).clamp(max=9)
        assert log.calls == 0 and result.placements == tuple(layout)

    on_mesh(program)


FUNCTIONS = [
    lambda x, D: x.sum(0),
    lambda x, D: x.mean(),
    lambda x, D: x.norm(),
    lambda x, D: x @ x.t(),
    lambda x, D: x.reshape(4, 6),
    lambda x, D: x.flatten(),
    lambda x, D: x.t().contiguous(),
    lambda x, D: x[2:6],
    lambda x, D: x.sort(0, descending=True).values,
    lambda x, D: torch.cat([x, x]),
    lambda x, D: x.softmax(0),
    lambda x, D: x.cumsum(0),
    lambda x, D: x.chunk(2)[1],
    lambda x, D: F.embedding(D(torch.tensor([0, 7, 3])), x),
    lambda x, D: F.cross_entropy(x.t(), D(torch.tensor([0, 7, 3]))),
    lambda x, D: x @ D(torch.ones(3, 8)),
]


def test_other_operators_give_the_values_and_gradients_of_one_device():
    def values(function, x, distribute):
        x.requires_grad_()
        result = function(x, distribute)
        result.sin().sum().backward()
        return [each.full_tensor() if weft.is_dtensor(each) else each for each in (result.detach(), x.grad)]

    def program(mesh):
        for function in FUNCTIONS:
            ragged = weft.distribute_tensor(ROWS / 9, mesh, [RaggedShard(0, LENGTHS)])
            given = values(function, ragged, lambda t: weft.distribute_tensor(t, mesh))
            torch.testing.assert_close(given, values(function, ROWS / 9, lambda t: t))

    on_mesh(program)
