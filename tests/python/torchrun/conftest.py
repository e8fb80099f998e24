import shutil
import sys
import tempfile
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
import weft


@pytest.fixture(scope="session", autouse=True)
def process_group():
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    yield
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def fresh_tracer():
    """No test is given what another one has compiled."""
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()


@pytest.fixture(scope="module")
def mesh():
    return weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))


@pytest.fixture
def folder():
    """One folder for all ranks."""
    names = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(names)
    yield names[0]
    dist.barrier()
    if dist.get_rank() == 0:
        shutil.rmtree(names[0])
