"""measure_rates: the ranks of a mesh agree on rates when asked to, before the first matmul would."""

import pytest
import torch
import weft
from weft import Shard

LINK, COMPUTE = "50us,125MB/s", "100Gflop/s,27GB/s,1us"


def on_mesh(program, ranks=2):
    return weft.run_on_ranks(ranks, lambda rank: program(weft.init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))))


@pytest.fixture
def nothing_given(monkeypatch):
    monkeypatch.delenv("WEFT_LINK", raising=False)
    monkeypatch.delenv("WEFT_COMPUTE", raising=False)


@pytest.fixture
def given(monkeypatch):
    monkeypatch.setenv("WEFT_LINK", LINK)
    monkeypatch.setenv("WEFT_COMPUTE", COMPUTE)


def test_all_ranks_get_the_same_and_a_second_call_sends_nothing(nothing_given):
    def program(mesh):
        with weft.comm_debug() as first:
            rates = weft.measure_rates(mesh)
        with weft.comm_debug() as second:
            assert weft.measure_rates(mesh, dtype=torch.float32) == rates
        assert set(first.by_operator()) == {"measure_rates"} and second.calls == 0
        return rates

    one, other = on_mesh(program)
    assert one == other and hash(one) == hash(other)
    assert str(weft.MeshRates.parse(str(one))) == str(one) == repr(one)


def test_what_the_environment_gives_is_not_measured(given):
    for rates in on_mesh(weft.measure_rates):
        assert str(rates) == f"rates(tp={LINK}; compute={COMPUTE})"
        assert (rates.link("tp"), rates.link(), rates.compute) == (LINK, LINK, COMPUTE)
        with pytest.raises(ValueError, match=r"\[MeshRates.link\] one of the mesh dims tp is required, but got 'dp'"):
            rates.link("dp")


def test_a_matmul_that_overlaps_measures_nothing_after_it(given):
    def program(mesh):
        weft.measure_rates(mesh)
        x = weft.ones(512, 512, device_mesh=mesh, placements=[Shard(0)])
        w = torch.nn.Parameter(weft.ones(1024, 512, device_mesh=mesh, placements=[Shard(0)]))
        with torch.no_grad(), weft.comm_debug() as sent, weft.explain() as explained:
            torch.nn.functional.linear(x, w)
        assert set(sent.by_operator()) == {"aten::linear"}
        return [call.op for call in explained.calls]

    assert on_mesh(program) == [["aten::linear"]] * 2


def test_a_rank_that_does_not_measure_is_an_error_that_says_so(nothing_given):
    def program(mesh):
        if mesh.get_rank() == 0:
            with pytest.raises(torch.distributed.DistBackendError, match=r"\[measure_rates\] all ranks of mesh\(tp=2\)"):
                weft.measure_rates(mesh)

    on_mesh(program)


def test_only_a_rank_of_the_mesh_may_ask(given):
    def program(rank):
        for ranks in ([0, 1], [0]):
            mesh = weft.DeviceMesh("cpu", ranks, mesh_dim_names=("tp",))
            if rank in ranks:
                weft.measure_rates(mesh)
            else:
                with pytest.raises(ValueError, match=f"but rank {rank} is not in mesh"):
                    weft.measure_rates(mesh)

    weft.run_on_ranks(3, program)


def test_texts_that_are_no_rates_are_errors():
    with pytest.raises(ValueError, match=r"\[MeshRates\]"):
        weft.MeshRates.parse("rates(tp=fast)")
