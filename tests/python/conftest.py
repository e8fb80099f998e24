import pytest
import torch
import weft

RANKS = 3


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def _plain(value):
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return (value.full_tensor() if weft.is_dtensor(value) else value).detach()


@pytest.fixture
def expect_as_plain():
    """Runs a program on plain tensors and on three ranks, which may hold empty shards, and expects equal results, or an
    error on every rank. The program is given a function that distributes a tensor: `D(tensor)` lays it out by
    `placement`, `D(tensor, other)` by another one."""

    def expect(program, placement, error=None):
        def rank_program(rank):
            mesh = weft.init_device_mesh("cpu", (RANKS,))

            def distribute(tensor, own=placement):
                return weft.distribute_tensor(tensor.clone(), mesh, [own])

            if error is None:
                return _plain(program(distribute))
            with pytest.raises(Exception, match=error):
                program(distribute)

        if error is not None:
            with pytest.raises(RuntimeError):
                program(lambda tensor, own=None: tensor.clone())
            weft.run_on_ranks(RANKS, rank_program)
            return
        want = _plain(program(lambda tensor, own=None: tensor.clone()))
        for got in weft.run_on_ranks(RANKS, rank_program):
            torch.testing.assert_close(got, want)

    return expect
