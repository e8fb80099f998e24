from datetime import timedelta

import pytest
import torch
import torch.distributed as dist


@pytest.fixture(scope="session", autouse=True)
def process_group():
    dist.init_process_group("gloo", timeout=timedelta(seconds=30))
    yield
    dist.destroy_process_group()


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)
