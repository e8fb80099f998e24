"""weft.tensor_parallel on the process groups of torch.distributed: exported programs that torch runs."""

import copy

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import parallel

import weft


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 37), nn.Linear(37, 16)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(11, 16)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.BatchNorm1d(16)
        self.frozen = nn.Parameter(torch.randn(16), requires_grad=False)

    def forward(self, tokens):
        x = self.table(tokens)
        for block in self.blocks:
            x = x + block(x)
        return self.norm(x.flatten(0, 1)) * self.frozen, x.sum()


PLAN = {"table": "rowwise", "blocks.*.up": "colwise", "blocks.*.down": "rowwise"}


@pytest.fixture
def mesh():
    return weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))


def exported(model, *inputs, **options):
    return torch.export.export(model, inputs, **options)


def collectives(program):
    names = [str(node.target) for node in program.graph.nodes if "_c10d_functional" in str(node.target)]
    return sorted(name.split(".")[1] for name in names if "wait_tensor" not in name)


def assert_same(program, other, *inputs):
    for actual, expected in zip(program.module()(*inputs), other.module()(*inputs), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("decomposed", [False, True])
def test_a_program_is_sharded_and_torch_runs_it(mesh, decomposed):
    torch.manual_seed(0)
    tokens = torch.randint(0, 11, (3, 5))
    whole = exported(Model().eval(), tokens)
    if decomposed:
        whole = whole.run_decompositions()
    state = copy.deepcopy(dict(whole.state_dict))
    own = weft.tensor_parallel(whole, mesh, PLAN)
    assert_same(own, whole, tokens)
    assert collectives(own) == ["all_reduce"] * 3
    # The given program is unchanged, and the new one holds this rank's shards.
    assert all(torch.equal(state[name], whole.state_dict[name]) for name in state)
    assert own.state_dict["blocks.0.up.weight"].shape == (19 if dist.get_rank() == 0 else 18, 16)
    assert own.state_dict["table.weight"].shape == (6 if dist.get_rank() == 0 else 5, 16)
    assert not own.state_dict["frozen"].requires_grad
    assert own.state_dict["blocks.0.up.weight"].requires_grad


def test_ranks_whose_weights_or_plans_differ_raise(mesh):
    torch.manual_seed(dist.get_rank())
    other = exported(Block(), torch.randn(4, 16))
    with pytest.raises(ValueError, match="all ranks must be given the same weights, but those of ranks 0 and 1 differ"):
        weft.tensor_parallel(other, mesh, {"up": "colwise", "down": "rowwise"})
    torch.manual_seed(0)
    same = exported(Block(), torch.randn(4, 16))
    with pytest.raises(ValueError, match="all ranks must be given the same plan"):
        weft.tensor_parallel(same, mesh, {"up" if dist.get_rank() == 0 else "down": "colwise"})
    with pytest.raises(ValueError, match="all ranks must be given the same options"):
        weft.tensor_parallel(same, mesh, {"up": "colwise"}, overlap="off" if dist.get_rank() == 0 else "force")


@pytest.mark.parametrize("of", [parallel, weft])
def test_keywords_of_module_inputs_raise(mesh, of):
    placements = torch.distributed.tensor if of is parallel else weft
    style = of.PrepareModuleInput(
        input_kwarg_layouts={"x": placements.Shard(0)}, desired_input_kwarg_layouts={"x": placements.Replicate()}
    )
    torch.manual_seed(0)
    with pytest.raises(ValueError, match='inputs must be given by position.*but got the keyword "x"'):
        weft.tensor_parallel(exported(Block(), torch.randn(4, 16)), mesh, {"up": style})


def test_layouts_of_inputs_and_outputs_are_as_asked(mesh):
    torch.manual_seed(0)
    x = torch.randn(4, 16)
    whole = exported(Block(), x)
    own = weft.tensor_parallel(
        whole, mesh, {"up": "colwise"}, input_layouts={"x": weft.Shard(0)}, output_layouts={0: weft.Shard(1)}
    )
    rank = dist.get_rank()
    actual = own.module()(x.chunk(2, 0)[rank])
    torch.testing.assert_close(actual, whole.module()(x).chunk(2, 1)[rank], rtol=1e-4, atol=1e-4)


def test_a_mesh_of_torch_and_a_batch_of_any_size(mesh):
    torch.manual_seed(0)
    whole = exported(Block(), torch.randn(4, 16), dynamic_shapes=({0: torch.export.Dim("batch", max=64)},))
    torch_mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    own = weft.tensor_parallel(whole, torch_mesh, {"up": "colwise", "down": "rowwise"})
    for batch in (4, 7):
        x = torch.randn(batch, 16)
        dist.broadcast(x, 0)
        torch.testing.assert_close(own.module()(x), whole.module()(x), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "styles",
    [
        (parallel.ColwiseParallel, parallel.RowwiseParallel),
        (parallel.ColwiseParallel(), parallel.RowwiseParallel()),
        (weft.ColwiseParallel, weft.RowwiseParallel()),
    ],
)
def test_the_function_of_torch_is_there_under_its_name(styles):
    torch.manual_seed(0)
    x = torch.randn(4, 16)
    whole = exported(Block(), x).run_decompositions()
    own = weft.tensor_parallel_transformation(
        whole, dist.get_rank(), 2, "cpu", {"up": styles[0], "down": styles[1]}
    )
    torch.testing.assert_close(own.module()(x), whole.module()(x), rtol=1e-4, atol=1e-4)
    assert collectives(own) == ["all_reduce"]


def test_wrong_arguments_are_told(mesh):
    whole = exported(Block(), torch.randn(4, 16))
    with pytest.raises(ValueError, match='"upp" matches none. The nearest are: up, down'):
        weft.tensor_parallel(whole, mesh, {"upp": "colwise"})
    with pytest.raises(TypeError, match="the style of 'up' must be given with its layouts"):
        weft.tensor_parallel(whole, mesh, {"up": weft.PrepareModuleOutput})
    with pytest.raises(TypeError, match="the style of 'up' must be one of Weft's"):
        weft.tensor_parallel(whole, mesh, {"up": 3})
    with pytest.raises(ValueError, match="rank must be this process's"):
        weft.tensor_parallel_transformation(whole, 7, 2, "cpu", {"up": "colwise"})
