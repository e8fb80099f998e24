"""What asks a distributed tensor for the memory of a plain one: it works, or raises a plain error. Nothing is made up."""

import copy

import numpy as np
import pytest
import torch
import torch.utils.dlpack
import weft
from torch import nn

NO_STORAGE = r"each rank holds a local tensor of a distributed tensor\. Use to_local for the memory of this rank's local tensor"
REFUSED = r"Use full_tensor\(\) for the global tensor, or to_local\(\) for this rank's local tensor"
NO_POINTER = r"Cannot access data pointer of Tensor that doesn't have storage"


@pytest.fixture
def mesh():
    return weft.init_device_mesh("cpu", (1,), mesh_dim_names=("tp",))


@pytest.fixture
def x(mesh):
    return weft.distribute_tensor(torch.arange(16.0).view(4, 4), mesh, [weft.Shard(0)])


@pytest.fixture
def layer(mesh):
    layer = nn.Linear(4, 4)
    layer.weight = nn.Parameter(weft.distribute_tensor(layer.weight, mesh, [weft.Shard(0)]))
    return weft.distribute_module(layer, mesh)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "access, error, text",
    [
        (lambda x: x.storage(), NotImplementedError, NO_STORAGE),
        (lambda x: x.untyped_storage(), NotImplementedError, NO_STORAGE),
        (lambda x: x.is_shared(), NotImplementedError, NO_STORAGE),
        (lambda x: x.share_memory_(), NotImplementedError, NO_STORAGE),
        (lambda x: torch.zeros(4, 4).set_(x.untyped_storage()), NotImplementedError, NO_STORAGE),
        (lambda x: x.data_ptr(), RuntimeError, NO_POINTER),
        (lambda x: x.tolist(), RuntimeError, REFUSED),
        (lambda x: x.numpy(), RuntimeError, REFUSED),
        (lambda x: np.asarray(x), RuntimeError, REFUSED),
        (lambda x: np.from_dlpack(x), RuntimeError, REFUSED),
        (lambda x: torch.from_dlpack(x), RuntimeError, REFUSED),
        (lambda x: torch.utils.dlpack.to_dlpack(x), RuntimeError, NO_POINTER),
        (lambda x: x.clone().set_(torch.zeros(4, 4)), TypeError, r"\[aten::set_\] two distributed tensors are required"),
        (lambda x: torch.zeros(4, 4).set_(x), TypeError, r"\[aten::set_\] two distributed tensors are required"),
        (lambda x: x.clone().resize_(2, 2), NotImplementedError, r"\[aten::resize_\] cannot change"),
    ],
)
def test_memory_of_a_tensor(x, access, error, text):
    with pytest.raises(error, match=text):
        access(x)


def test_what_a_tensor_says_of_itself(x):
    assert not x.is_pinned()
    assert (x.element_size(), x.nbytes, len(x), len(list(x))) == (4, 64, 4, 4)
    assert float(x.sum()) == x.sum().item() == 120.0
    assert torch.as_tensor(x) is x
    assert weft.is_dtensor(torch.asarray(x))


def test_modules_are_copied_and_converted(layer):
    copied = copy.deepcopy(layer)
    assert weft.is_dtensor(copied.weight)
    assert torch.equal(copied.weight.full_tensor(), layer.weight.full_tensor())
    for dtype in (torch.float64, torch.bfloat16):
        converted = copy.deepcopy(layer).to(dtype)
        assert weft.is_dtensor(converted.weight)
        assert converted.weight.dtype == converted.weight.to_local().dtype == dtype


def test_memory_of_a_module(layer):
    with pytest.raises(NotImplementedError, match=NO_STORAGE):
        layer.share_memory()


def test_copies_share_memory_where_the_originals_do(mesh):
    for placement in (weft.Shard(0), weft.Replicate()):
        x = weft.distribute_tensor(torch.arange(16.0).view(4, 4), mesh, [placement])
        for tensors in ((x, x.view(-1)), (x.view(2, 8), x), (x.T, x.detach()), (x, x.detach(), x)):
            copies = copy.deepcopy(tensors)
            for each, copied in zip(tensors, copies):
                torch.testing.assert_close(copied.full_tensor(), each.full_tensor())
                assert copied.placements == each.placements
            copies[-1].zero_()
            assert all(not copied.any() for copied in copies)
            assert x.full_tensor()[3, 3] == 15


def test_copies_of_copied_views_know_of_writes():
    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = weft.distribute_tensor(torch.arange(16.0).view(4, 4), mesh, [weft.Shard(0)])
        copied, view = copy.deepcopy((x, x[1:2]))
        copied.zero_()
        with pytest.raises(ValueError, match="the tensor it was taken of has changed since"):
            view.full_tensor()

    weft.run_on_ranks(2, rank_program)


def test_copies_whose_memory_is_shared_in_another_way_raise(mesh):
    local = torch.arange(16.0)
    a = weft.from_local(local.view(4, 4), mesh, [weft.Shard(0)])
    b = weft.from_local(local.view(2, 8), mesh, [weft.Shard(0)])
    with pytest.raises(NotImplementedError, match=r"\[deepcopy\] .* shares its memory with"):
        copy.deepcopy((a, b))


def test_data_parallel_over_no_device_is_the_module(layer, x, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    torch.testing.assert_close(nn.DataParallel(layer)(x).full_tensor(), layer(x).full_tensor())


class Twice(nn.Module):
    def forward(self, weight):
        return 2 * weight


def test_a_parametrization_of_a_distributed_weight(layer):
    weight = layer.weight.detach().full_tensor().clone()
    nn.utils.parametrize.register_parametrization(layer, "weight", Twice())
    torch.testing.assert_close(layer.weight.full_tensor(), 2 * weight)


class Rows(torch.utils.data.Dataset):
    def __init__(self, of):
        self.of = of

    def __len__(self):
        return 4

    def __getitem__(self, row):
        return self.of(row)


@pytest.mark.filterwarnings("ignore")
def test_data_loaders_with_workers(x):
    loader = torch.utils.data.DataLoader(Rows(lambda row: x.to_local()[row]), 4, num_workers=1, multiprocessing_context="fork")
    torch.testing.assert_close(next(iter(loader)), x.full_tensor())
    loader = torch.utils.data.DataLoader(Rows(lambda row: x[row]), 4, num_workers=1, multiprocessing_context="fork")
    with pytest.raises(NotImplementedError, match=NO_STORAGE):
        next(iter(loader))


@pytest.mark.parametrize("rows", [(slice(0, 4), slice(2, 6)), (slice(0, 4), slice(1, 5))], ids=str)
def test_a_copy_of_tensors_whose_windows_of_one_memory_differ_raises(mesh, rows):
    """Equal specs and strides do not say that the values are the same."""
    memory = torch.arange(12.0).view(6, 2)
    one, other = (weft.from_local(memory[each], mesh, [weft.Replicate()]) for each in rows)
    with pytest.raises(NotImplementedError, match=r"\[deepcopy\] .* shares its memory with"):
        copy.deepcopy((one, other))
    same, twice = copy.deepcopy((one, weft.from_local(memory[rows[0]], mesh, [weft.Replicate()])))
    assert torch.equal(same.to_local(), memory[rows[0]]) and same.to_local().data_ptr() == twice.to_local().data_ptr()
