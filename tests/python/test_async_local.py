"""to_local() after redistribute(async_op=True): a tensor that waits when it is read."""

import copy
import io

import numpy
import pytest
import torch
import weft
from torch.distributed._functional_collectives import AsyncCollectiveTensor
from weft import Partial, Replicate, Shard

VALUES = torch.arange(8.0).reshape(4, 2)


def on_mesh(program, ranks=2):
    return weft.run_on_ranks(ranks, lambda rank: program(weft.init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))))


def gathering(mesh, requires_grad=False):
    x = weft.distribute_tensor(VALUES.clone(), mesh, [Shard(0)]).requires_grad_(requires_grad)
    return x, x.redistribute(placements=[Replicate()], async_op=True)


def saved(tensor):
    buffer = io.BytesIO()
    torch.save(tensor, buffer)
    buffer.seek(0)
    return torch.load(buffer)


READS = {
    "operator": lambda t: t + 0,
    "view": lambda t: t.view(-1).view(4, 2),
    "index": lambda t: torch.stack([t[i] for i in range(4)]),
    "out": lambda t: torch.add(t, 0, out=torch.empty(4, 2)),
    "into": lambda t: torch.empty(4, 2).copy_(t),
    "numpy": lambda t: torch.from_numpy(t.numpy()),
    "asarray": lambda t: torch.from_numpy(numpy.asarray(t)),
    "tolist": lambda t: torch.tensor(t.tolist()),
    "dlpack": lambda t: torch.from_dlpack(t),
    "data": lambda t: t.data,
    "detach": lambda t: t.detach(),
    "storage": lambda t: torch.tensor(t.untyped_storage().tolist(), dtype=torch.uint8).view(torch.float).view(4, 2),
    "deepcopy": lambda t: copy.deepcopy(t),
    "save": saved,
    "wait": lambda t: t.wait(),
    "from_local": lambda t: weft.from_local(t, weft.init_device_mesh("cpu", (2,))).to_local(),
    "foreach": lambda t: torch._foreach_add([t], 0)[0],
    "module": lambda t: torch.nn.Identity()(t) * 1,
    "clone": lambda t: t.clone(),
}


@pytest.mark.parametrize("name", READS)
def test_whatever_reads_it_waits(name):
    def program(mesh):
        _, y = gathering(mesh)
        local = y.to_local()
        assert isinstance(local, AsyncCollectiveTensor) and not local.completed
        assert local.shape == (4, 2) and local.dtype == torch.float32 and local.stride() == (2, 1) and not local.completed
        read = READS[name](local)
        assert torch.equal(read, VALUES) and not isinstance(read, AsyncCollectiveTensor)
        assert local.completed

    on_mesh(program)


def test_its_address_is_that_of_the_values():
    def program(mesh):
        _, y = gathering(mesh)
        local = y.to_local()
        assert local.data_ptr() == y.to_local().data_ptr() != 0 and local.completed

    on_mesh(program)


def test_its_memory_raises_in_cpp_until_it_has_arrived():
    def program(mesh):
        _, y = gathering(mesh)
        local = y.to_local()
        with pytest.raises(RuntimeError, match=r"\[AsyncLocalTensor\] a tensor whose values have arrived is required"):
            torch._C._to_dlpack(local)
        local.wait()

    on_mesh(program)


def test_it_shares_memory_with_the_distributed_tensor():
    def program(mesh):
        _, y = gathering(mesh)
        y.to_local().add_(1)
        assert torch.equal(y.full_tensor(), VALUES + 1)
        kept = y.to_local()
        kept += 1
        assert torch.equal(y.to_local(), VALUES + 2) and torch.equal(kept, VALUES + 2)

    on_mesh(program)


def test_what_has_arrived_is_a_plain_tensor():
    def program(mesh):
        _, y = gathering(mesh)
        y + 1
        assert type(y.to_local()) is torch.Tensor
        x = weft.distribute_tensor(VALUES, mesh, [Shard(0)])
        assert type(x.redistribute(placements=[Replicate()]).to_local()) is torch.Tensor
        assert type(x.to_local()) is torch.Tensor
        assert type(x.full_tensor()) is torch.Tensor

    on_mesh(program)


def test_gradients_flow_through_it():
    def program(mesh):
        x, y = gathering(mesh, requires_grad=True)
        local = y.to_local()
        assert isinstance(local, AsyncCollectiveTensor) and local.requires_grad and not local.completed
        (local * VALUES).sum().backward()
        assert torch.equal(x.grad.full_tensor(), VALUES) and x.grad.placements == (Shard(0),)
        x, y = gathering(mesh, requires_grad=True)
        (first,) = torch.autograd.grad((y.to_local() ** 3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        assert torch.equal(second.full_tensor(), 6 * VALUES)
        x, y = gathering(mesh, requires_grad=True)
        weft.from_local(y.to_local(), mesh, [Replicate()]).sum().backward()
        assert torch.equal(x.grad.full_tensor(), torch.ones(4, 2))

    on_mesh(program)


def test_what_torch_refuses_of_a_tensor_that_requires_a_gradient_is_refused():
    def program(mesh):
        for misuse, error in (
            (lambda t: t.numpy(), "Can't call numpy"),
            (lambda t: t.add_(1), "is a view of a distributed tensor and is being modified inplace"),
        ):
            _, y = gathering(mesh, requires_grad=True)
            with pytest.raises(RuntimeError, match=error):
                misuse(y.to_local())
            y.full_tensor()
        with torch.no_grad():
            _, y = gathering(mesh, requires_grad=True)
            assert torch.equal(y.to_local().add_(1), VALUES + 1)

    on_mesh(program)


def test_reductions_wait_too():
    def program(mesh):
        x = weft.from_local(VALUES.clone(), mesh, [Partial()])
        for placement, want in ((Replicate(), 2 * VALUES), (Shard(0), (2 * VALUES).chunk(2)[mesh.get_rank()])):
            local = x.redistribute(placements=[placement], async_op=True).to_local()
            assert torch.equal(local * 1, want)

    on_mesh(program)


def test_other_formats_wait_at_once():
    def program(mesh):
        x = weft.distribute_tensor(VALUES.t(), mesh, [Shard(0)])
        local = x.redistribute(placements=[Replicate()], async_op=True).to_local()
        assert type(local) is torch.Tensor and torch.equal(local, VALUES.t()) and local.stride() == (1, 2)

    on_mesh(program)
