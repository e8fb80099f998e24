"""DistributedDataParallel around a model that is tensor parallel inside, on dp=2 x tp=2: gradients of a single device."""

import copy

import pytest
import torch
import torch.distributed as dist
import weft
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from weft import ColwiseParallel, Replicate, RowwiseParallel

ROWS, DIM, CLASSES = 6, 8, 4
PLAN = {"up": ColwiseParallel(), "down": RowwiseParallel(), "head": ColwiseParallel(output_layouts=Replicate())}


class Model(nn.Module):
    """`last` is in no plan, so that its parameters stay plain."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(DIM, 2 * DIM), nn.Linear(2 * DIM, DIM)
        self.norm = nn.BatchNorm1d(DIM, affine=False)
        self.head, self.last = nn.Linear(DIM, CLASSES), nn.Linear(CLASSES, CLASSES)
        self.uses_last = True
        self.use_reentrant = None

    def block(self, x):
        return self.down(torch.tanh(self.up(x)))

    def forward(self, x):
        if self.use_reentrant is None:
            x = x + self.block(x)
        else:
            x = x + checkpoint(self.block, x, use_reentrant=self.use_reentrant)
        x = self.head(x)
        return self.last(x) if self.uses_last else x


@pytest.fixture
def mesh():
    return weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def data():
    return torch.randn(ROWS, DIM), torch.randn(ROWS, CLASSES)


def own_rows(mesh, data):
    """The half of the batch that the ranks of this tp group see."""
    dp = mesh.get_local_rank("dp")
    return [t[dp * ROWS // 2 : (dp + 1) * ROWS // 2] for t in data]


def wrapped(model, mesh, **options):
    model = copy.deepcopy(model)
    if mesh.get_local_rank("dp") == 1:
        for parameter in model.parameters():
            parameter.data.add_(1)  # the values of the first rank of the group count
    model = weft.parallelize_module(model, mesh["tp"], PLAN)
    return DistributedDataParallel(model, process_group=mesh["dp"].get_group(), **options)


def plain(tensor):
    return tensor.full_tensor() if tensor is not None and weft.is_dtensor(tensor) else tensor


def expect_gradients(parallel, model, data, passes=1):
    model = copy.deepcopy(model)
    for _ in range(passes):
        F.mse_loss(model(data[0]), data[1]).backward()
    for (name, parameter), expected in zip(parallel.module.named_parameters(), model.parameters(), strict=True):
        assert weft.is_dtensor(parameter) == (not name.startswith("last")), name
        assert (parameter.grad is None) == (expected.grad is None), name
        if expected.grad is not None:
            assert weft.is_dtensor(parameter.grad) == weft.is_dtensor(parameter), name
            torch.testing.assert_close(plain(parameter.grad), expected.grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("unused", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {"find_unused_parameters": True},
        {"find_unused_parameters": True, "gradient_as_bucket_view": True},
        {"static_graph": True},
        {"static_graph": True, "bucket_cap_mb": 1e-4},
    ],
    ids=str,
)
def test_gradients_are_averaged_over_the_group(mesh, model, data, options, unused):
    model.uses_last = not unused
    parallel = wrapped(model, mesh, **options)
    x, y = own_rows(mesh, data)
    for _ in range(3):
        parallel.zero_grad()
        F.mse_loss(parallel(x), y).backward()
        expect_gradients(parallel, model, data)


def test_an_unused_distributed_parameter(mesh, data):
    """Of a parameter that no rank uses there is no gradient; of one that the first half alone uses all ranks get half of it."""

    class Choosing(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down, self.head = nn.Linear(DIM, DIM), nn.Linear(DIM, DIM), nn.Linear(DIM, CLASSES)

        def forward(self, x, uses_up):
            return self.head(self.up(x) if uses_up else x)

    model = Choosing()
    plan = {name: ColwiseParallel(output_layouts=Replicate()) for name in ("up", "down", "head")}
    parallel = DistributedDataParallel(
        weft.parallelize_module(copy.deepcopy(model), mesh["tp"], plan),
        process_group=mesh["dp"].get_group(),
        find_unused_parameters=True,
    )
    x, y = own_rows(mesh, data)
    half = ROWS // 2
    for _ in range(2):
        model.zero_grad()
        parallel.zero_grad()
        F.mse_loss(parallel(x, mesh.get_local_rank("dp") == 0), y).backward()
        for rows, uses_up in ((slice(0, half), True), (slice(half, ROWS), False)):
            (F.mse_loss(model(data[0][rows], uses_up), data[1][rows]) / 2).backward()
        for (name, parameter), expected in zip(parallel.module.named_parameters(), model.parameters(), strict=True):
            assert (parameter.grad is None) == (expected.grad is None), name
            if expected.grad is not None:
                torch.testing.assert_close(plain(parameter.grad), expected.grad, rtol=1e-4, atol=1e-6)


def test_the_mesh_of_the_group_may_be_given(mesh, model, data):
    model_on_mesh = weft.parallelize_module(copy.deepcopy(model), mesh["tp"], PLAN)
    parallel = DistributedDataParallel(model_on_mesh, device_mesh=mesh["dp"])
    x, y = own_rows(mesh, data)
    F.mse_loss(parallel(x), y).backward()
    expect_gradients(parallel, model, data)


def test_without_synchronization_gradients_accumulate(mesh, model, data):
    parallel = wrapped(model, mesh)
    x, y = own_rows(mesh, data)
    with parallel.no_sync():
        F.mse_loss(parallel(x), y).backward()
    F.mse_loss(parallel(x), y).backward()
    expect_gradients(parallel, model, data, passes=2)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_checkpoints(mesh, model, data, use_reentrant):
    model.use_reentrant = use_reentrant
    data = [t.requires_grad_(t.shape[1] == DIM) for t in data]
    parallel = wrapped(model, mesh)
    x, y = own_rows(mesh, data)
    F.mse_loss(parallel(x), y).backward()
    expect_gradients(parallel, model, data)


def test_a_hook_of_the_communication(mesh, model, data):
    parallel = wrapped(model, mesh)
    parallel.register_comm_hook(mesh["dp"].get_group(), default_hooks.allreduce_hook)
    x, y = own_rows(mesh, data)
    F.mse_loss(parallel(x), y).backward()
    expect_gradients(parallel, model, data)


@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": True}, {}], ids=str)
def test_training_with_clipped_gradients(mesh, model, data, options):
    parallel = wrapped(model, mesh)
    optimizer = torch.optim.AdamW(parallel.parameters(), lr=0.1, **options)
    expected_optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, **options)
    x, y = own_rows(mesh, data)
    for _ in range(3):
        for each, network, inputs, targets in (
            (optimizer, parallel, x, y),
            (expected_optimizer, model, *data),
        ):
            each.zero_grad()
            F.mse_loss(network(inputs), targets).backward()
        norm = nn.utils.clip_grad_norm_(parallel.parameters(), 0.1, foreach=options.get("foreach"))
        torch.testing.assert_close(plain(norm), nn.utils.clip_grad_norm_(model.parameters(), 0.1))
        optimizer.step()
        expected_optimizer.step()
    for one, other in zip(parallel.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(plain(one), other, rtol=1e-4, atol=1e-5)
    assert all(weft.is_dtensor(t) for name, t in parallel.state_dict().items() if "up" in name)


def test_buffers_are_those_of_the_first_rank(mesh, model):
    parallel = wrapped(model, mesh)
    parallel.module.norm.running_mean.add_(mesh.get_local_rank("dp"))
    parallel(torch.ones(2, DIM))
    mean = parallel.module.norm.running_mean  # of a module without parameters, plain as the outputs of the plan are
    assert not weft.is_dtensor(mean) and mean.eq(0).all()


def test_a_group_with_other_ranks_of_the_mesh_is_an_error(mesh, model):
    model = weft.parallelize_module(model, mesh["tp"], PLAN)
    text = r"a process group with one rank of each parameter's mesh is required, but got that of ranks \[.*\] for 'up.weight'"
    for group in (None, mesh["tp"].get_group()):
        with pytest.raises(ValueError, match=text):
            DistributedDataParallel(model, process_group=group)
    with pytest.raises(NotImplementedError, match="mixed_precision is for plain parameters"):
        DistributedDataParallel(model, process_group=mesh["dp"].get_group(), mixed_precision=object())
    assert dist.get_world_size() == 4
