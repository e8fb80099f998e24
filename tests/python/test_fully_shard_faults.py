"""A rank of a fully sharded model that dies: an error on the others within the timeout."""

import os
import signal
import socket
import subprocess
import sys

PROGRAM = """
import os, sys, torch, weft
import torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
model = nn.Sequential(*[weft.fully_shard(nn.Linear(64, 64), mesh) for _ in range(6)])
weft.fully_shard(model, mesh)
dying = model[3]
steps = 0
def die(*_):
    if steps == 2 and rank == 1:
        os._exit(9)  # while gathers are under way
dying.register_forward_pre_hook(die)
try:
    for steps in range(4):
        model(torch.ones(2, 64)).sum().backward()
        model.zero_grad()
except Exception as error:
    assert rank == 0, error
    assert "fully_shard" in str(error) or "all_gather" in str(error) or "reduce_scatter" in str(error), error
    print("survivor:", str(error).splitlines()[0], flush=True)
    os._exit(0)  # the store of the other rank is gone
os._exit(1)
"""


def test_a_rank_that_dies_during_a_prefetch_is_an_error_on_the_other(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(2):
        environment = dict(
            os.environ,
            RANK=str(rank),
            LOCAL_RANK=str(rank),
            WORLD_SIZE="2",
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT=str(port),
            WEFT_TIMEOUT_SECONDS="10",
        )
        ranks.append(subprocess.Popen([sys.executable, program], env=environment, stdout=subprocess.PIPE, text=True))
    try:
        outputs = [rank.communicate(timeout=60)[0] for rank in ranks]
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.send_signal(signal.SIGKILL)
    assert [rank.returncode for rank in ranks] == [0, 9], outputs
    assert "survivor:" in outputs[0]
