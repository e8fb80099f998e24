"""A rank of a fully sharded model that dies: an error on the others within the timeout, and nothing is left behind."""

import os
import signal
import socket
import subprocess
import sys

import pytest

PROGRAM = """
import gc, os, sys, torch, weakref, weft
import torch.distributed as dist
from torch import nn
dist.init_process_group("gloo")
rank = int(os.environ["RANK"])
mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
moment, expected = sys.argv[1:]
reshards = expected == "all_gather"
layers = [weft.fully_shard(nn.Linear(64, 64), mesh, reshard_after_forward=reshards) for _ in range(6)]
model = nn.Sequential(*layers)
weft.fully_shard(model, mesh)
if moment == "backward":
    model.set_requires_gradient_sync(not reshards)  # there are collectives of one kind alone
dying = model[3]
steps = 0
def die(*_):
    if steps == 2 and rank == 1:
        os._exit(9)  # while collectives are under way
if moment == "forward":
    dying.register_forward_pre_hook(die)
else:
    dying.register_forward_hook(lambda module, inputs, output: output.register_hook(die) and None)
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
assert expected in text and "of unit" in text, text
print("survivor:", text.splitlines()[0])
assert all(weft.is_dtensor(p) for p in model.parameters())
model.reshard()  # raises no error of that gather again
freed = [weakref.ref(each) for each in (model, *model, *model.parameters())]
model = layers = dying = mesh = None
torch.ones(1, requires_grad=True).sum().backward()  # torch keeps tasks of a pass that failed until the next one
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


@pytest.mark.parametrize(
    ("moment", "expected"), [("forward", "all_gather"), ("backward", "all_gather"), ("backward", "reduce_scatter")]
)
def test_a_rank_that_dies_during_a_collective_is_an_error_on_the_other(tmp_path, moment, expected):
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
        ranks.append(subprocess.Popen([sys.executable, program, moment, expected], env=environment, stdout=subprocess.PIPE, text=True))
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
