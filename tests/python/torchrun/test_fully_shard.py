"""Fully sharded training on two processes: the losses of one device, and PyTorch's refusal."""

import copy
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import weft
from torch.distributed.fsdp import fully_shard as fully_shard_of_torch
from torch.nn import functional as F
from weft import Shard

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "python"
sys.path.insert(0, str(EXAMPLES))
from train import EXAMPLES as MODELS  # noqa: E402

STEPS = 20


@pytest.fixture(scope="module")
def mesh():
    return weft.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))


def losses_of(model, batch_of, to_own=lambda t: t):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(STEPS):
        inputs, classes = (to_own(t) for t in batch_of(step))
        output = model(inputs)
        loss = F.cross_entropy(output.flatten(0, -2), classes.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses


def sharded(model, mesh, **options):
    blocks = next(each for each in model.children() if isinstance(each, torch.nn.ModuleList))
    for block in blocks:
        weft.fully_shard(block, mesh, **options)
    return weft.fully_shard(model, mesh, **options)


@pytest.mark.parametrize("is_global", [True, False], ids=["global view", "plain data"])
@pytest.mark.parametrize("name", MODELS)
def test_the_examples_have_the_losses_of_one_device(mesh, name, is_global):
    torch.manual_seed(0)
    model = MODELS[name].make().eval()  # without dropout
    expected = losses_of(copy.deepcopy(model), MODELS[name].batch)
    assert expected[-1] < 0.9 * expected[0]

    def own(tensor):
        if is_global:
            return weft.distribute_tensor(tensor, mesh, [Shard(0)])
        return tensor.chunk(2)[mesh.get_local_rank()]

    for given, of_one in zip(losses_of(sharded(model, mesh), MODELS[name].batch, own), expected, strict=True):
        if is_global:
            given = given.full_tensor()
        else:
            dist.all_reduce(given)
            given /= 2
        torch.testing.assert_close(given, of_one, rtol=1e-5, atol=1e-5)


def compiled_in_place(model):
    for each in model[1:3]:
        each.compile(backend="aot_eager")


def replaced_by_compiled(model):
    for number in (1, 2):
        model[number] = torch.compile(model[number], backend="aot_eager")


@pytest.mark.parametrize("compile_blocks", [compiled_in_place, replaced_by_compiled])
def test_blocks_that_were_compiled_before(mesh, compile_blocks):
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()) for _ in range(2)]
    model = torch.nn.Sequential(torch.nn.Linear(5, 8), *layers, torch.nn.Linear(8, 3))
    batches = [(torch.randn(4, 5), torch.randint(3, (4,))) for _ in range(STEPS)]
    expected = losses_of(copy.deepcopy(model), batches.__getitem__)
    compile_blocks(model)
    for block in list(model)[1:3]:
        weft.fully_shard(block, mesh)
    weft.fully_shard(model, mesh)
    losses = losses_of(model, batches.__getitem__, lambda t: t.chunk(2)[mesh.get_local_rank()])
    for loss, of_one in zip(losses, expected):
        of_all = weft.from_local(loss.reshape(1), mesh, [Shard(0)]).full_tensor().mean()
        torch.testing.assert_close(of_all, of_one, rtol=1e-5, atol=1e-6)


def test_pytorch_refuses_weft_parameters_and_says_what_to_call(mesh):
    linear = torch.nn.Linear(4, 4)
    linear.weight = torch.nn.Parameter(weft.distribute_tensor(linear.weight.detach(), mesh, [Shard(0)]))
    with pytest.raises(NotImplementedError, match=r"Use weft\.fully_shard"):
        fully_shard_of_torch(linear)
