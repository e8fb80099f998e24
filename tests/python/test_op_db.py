"""PyTorch's OpInfo database on two ranks, compared with plain tensors; docs/op_db.md has the table of all samples."""

import os
import signal
import sys

import pytest

sys.path.insert(0, os.path.dirname(__file__))
import op_db  # noqa: E402


def test_operators_are_correct_or_raise():
    # A few samples of each operator; WEFT_OP_DB_SAMPLES=0 runs all.
    table = op_db.run_all(samples=int(os.environ.get("WEFT_OP_DB_SAMPLES", op_db.DEFAULT_SAMPLES)))
    print(table.summary())
    assert not table.failures()
    # Kernels compiled for GPUs, a view of memory around the input, of which a copy has none, and a result in double precision.
    odd = {"as_strided.partial_views", "float_power_"}
    assert all(name.startswith("jiterator") or name in odd for name in table.unusable)
    assert sum(1 for counts in table.counts.values() if counts) > 750
    assert table.share_correct() >= 0.95, table.summary()


@pytest.mark.parametrize("ending, outcome", [(signal.SIGSEGV, "crash"), (signal.SIGSTOP, "hang")])
def test_a_process_that_ends_or_stops_is_a_failure_of_the_case_it_was_at(monkeypatch, ending, outcome):
    read = op_db.Worker.read
    ended = []

    def read_and_end(worker, seconds):
        message = read(worker, 5 if ended == [worker] else 60)
        if not ended and "case" in message:
            ended.append(worker)
            os.kill(worker.process.pid, ending)
        return message

    monkeypatch.setattr(op_db.Worker, "read", read_and_end)
    table = op_db.run_all(samples=8, only="linalg.svd")
    assert table.counts["linalg.svd"][outcome] == 1
    assert table.counts["linalg.svd"]["correct"] == 46  # a case that failed has neither results nor gradients
    assert f"1 {outcome}" in table.failures()[0]
