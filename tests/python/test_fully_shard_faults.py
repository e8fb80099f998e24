"""A rank of a fully sharded model that dies: an error on the others within the timeout, and nothing is left behind."""

import os
import signal
import socket
import subprocess
import sys

PROGRAM = """
import gc, os, sys, torch, weakref, weft
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
def run():
    global steps
    try:
        for steps in range(4):
            model(torch.ones(2, 64)).sum().backward()
            model.zero_grad()
    except Exception as error:
        return str(error)
text = run()
assert rank == 0, text
assert "fully_shard" in text or "all_gather" in text or "reduce_scatter" in text, text
assert "of unit" in text, text
print("survivor:", text.splitlines()[0])
assert all(weft.is_dtensor(p) for p in model.parameters())
model.reshard()  # raises no error of that gather again
freed = [weakref.ref(each) for each in (model, *model, *model.parameters())]
model = dying = mesh = None
gc.collect()
assert not any(reference() for reference in freed)
links = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.islink(f"/proc/self/fd/{fd}")]
print("shared files:", sum("memfd:weft" in link for link in links), flush=True)
os._exit(0)  # the store of the other rank is gone
"""


def named_shared_memory():
    return {name for name in os.listdir("/dev/shm") if "weft" in name}


def holders_of_shared_files(pids):
    """Those of the processes that have the file in which Weft's ranks share memory."""
    found = []
    for pid in pids:
        try:
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
        except OSError:
            continue
        found += [pid for link in links if "memfd:weft" in link]
    return found


def test_a_rank_that_dies_during_a_prefetch_is_an_error_on_the_other(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    before = named_shared_memory()
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
    assert "shared files: 1" in outputs[0].splitlines(), "its own, and not that of the rank that died"
    assert named_shared_memory() == before
    assert holders_of_shared_files(rank.pid for rank in ranks) == []
