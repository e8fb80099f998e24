"""PyTorch's OpInfo database on two ranks, beside plain tensors; docs/op_db.md has the table of all samples."""

import os
import sys

sys.path.insert(0, os.path.dirname(__file__))
import op_db  # noqa: E402


def test_operators_are_correct_or_raise():
    # A few samples of each operator; WEFT_OP_DB_SAMPLES=0 runs all.
    table = op_db.run_all(samples=int(os.environ.get("WEFT_OP_DB_SAMPLES", op_db.DEFAULT_SAMPLES)))
    print(table.summary())
    assert not table.failures()
    assert not table.unusable
    assert sum(1 for counts in table.counts.values() if counts) > 600
    assert table.share_correct() >= 0.95, table.summary()
