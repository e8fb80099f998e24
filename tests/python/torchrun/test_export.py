"""weft.tensor_parallel on the process groups of torch.distributed: exported programs that torch runs."""

import copy
import os

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.tensor import parallel
from torch.fx.passes.infra.pass_base import PassResult

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


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(16, 16)

    def forward(self, x, *, mask):
        return self.inner(x) * mask


class TakesMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.masked = Masked()

    def forward(self, x, mask):
        return self.masked(x.relu(), mask=mask.neg())


@pytest.mark.parametrize("of", [parallel, weft])
def test_keywords_of_module_inputs_are_kept_where_the_program_has_them(mesh, of):
    placements = torch.distributed.tensor if of is parallel else weft
    style = of.PrepareModuleInput(
        input_layouts=placements.Replicate(),
        desired_input_layouts=placements.Shard(0),
        input_kwarg_layouts={"mask": placements.Replicate()},
        desired_input_kwarg_layouts={"mask": placements.Shard(0)},
    )
    torch.manual_seed(0)
    given = torch.randn(4, 16), torch.randn(4, 1)
    model = TakesMask()
    whole = torch.export.export(model, given, preserve_module_call_signature=("masked",))
    own = weft.tensor_parallel(whole, mesh, {"masked": style}, output_layouts={0: placements.Shard(0)})
    torch.testing.assert_close(own.module()(*given), model(*given).chunk(2)[dist.get_rank()])
    (product,) = [node for node in own.graph.nodes if "mul" in str(node.target)]
    assert [tuple(each.meta["val"].shape) for each in product.all_input_nodes] == [(2, 16), (2, 1)]
    assert collectives(own) == []


def test_keywords_that_the_program_does_not_have_raise(mesh):
    style = weft.PrepareModuleInput(
        input_kwarg_layouts={"mask": weft.Replicate()}, desired_input_kwarg_layouts={"mask": weft.Shard(0)}
    )
    torch.manual_seed(0)
    given = torch.randn(4, 16), torch.randn(4, 1)
    with pytest.raises(ValueError, match=r'Export it with preserve_module_call_signature=\("masked",\)'):
        weft.tensor_parallel(exported(TakesMask(), *given), mesh, {"masked": style})
    whole = torch.export.export(TakesMask(), given, preserve_module_call_signature=("masked", "masked.inner"))
    with pytest.raises(ValueError, match='"mask" is none of those that it is called with: none'):
        weft.tensor_parallel(whole, mesh, {"masked.inner": style})


def test_keywords_of_the_model_itself_are_known(mesh):
    style = weft.PrepareModuleInput(
        input_kwarg_layouts={"mask": weft.Shard(0)}, desired_input_kwarg_layouts={"mask": weft.Replicate()}
    )
    torch.manual_seed(0)
    x, mask = torch.randn(4, 16), torch.randn(4, 1)
    model = Masked()
    whole = torch.export.export(model, (x,), {"mask": mask})
    own = weft.tensor_parallel(whole, mesh, {"": style})
    mine = mask.chunk(2)[dist.get_rank()]
    torch.testing.assert_close(own.module()(x, mask=mine), model(x, mask=mask))
    assert collectives(own) == ["all_gather_into_tensor"]


@pytest.mark.parametrize("of", [parallel, weft])
def test_styles_of_inputs_and_outputs_at_once(mesh, of):
    placements = torch.distributed.tensor if of is parallel else weft
    style = of.PrepareModuleInputOutput(
        input_layouts=placements.Replicate(),
        desired_input_layouts=placements.Shard(0),
        output_layouts=placements.Shard(0),
        desired_output_layouts=placements.Replicate(),
    )
    torch.manual_seed(0)
    x = torch.randn(4, 16)
    whole = exported(Block(), x)
    own = weft.tensor_parallel_transformation(whole, dist.get_rank(), 2, "cpu", {"up": style})
    torch.testing.assert_close(own.module()(x), whole.module()(x), rtol=1e-4, atol=1e-4)
    assert collectives(own) == ["all_gather_into_tensor"]


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


def test_of_ranks_whose_weights_differ_the_first_ones_count_where_asked(mesh):
    torch.manual_seed(dist.get_rank())
    tokens = torch.tensor([[1, 2, 3], [4, 5, 6]])
    mine = exported(Model().eval(), tokens)
    torch.manual_seed(0)
    first = exported(Model().eval(), tokens)
    own = weft.tensor_parallel(mine, mesh, PLAN, broadcast_weights=True)
    assert_same(own, first, tokens)
    assert own.state_dict["table.weight"].shape[0] == (6 if dist.get_rank() == 0 else 5)
    with pytest.raises(ValueError, match="all ranks must be given the same weights"):
        other = exported(Block() if dist.get_rank() else nn.Linear(16, 16), torch.randn(4, 16))
        weft.tensor_parallel(other, mesh, {"": "input"}, broadcast_weights=True)


def test_weights_that_modules_share_are_shared_after_they_were_sent(mesh):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.head = nn.Embedding(12, 16), nn.Linear(16, 12, bias=False)
            self.head.weight = self.table.weight

        def forward(self, tokens):
            return self.head(self.table(tokens))

    torch.manual_seed(dist.get_rank())
    tokens = torch.tensor([1, 2, 3])
    own = weft.tensor_parallel(
        exported(Tied(), tokens), mesh, {"table": "rowwise", "head": "colwise"}, broadcast_weights=True
    )
    assert own.state_dict["table.weight"].data_ptr() == own.state_dict["head.weight"].data_ptr()
    torch.manual_seed(0)
    torch.testing.assert_close(own.module()(tokens), Tied()(tokens), rtol=1e-4, atol=1e-4)


def test_no_copy_of_the_weights_is_made_on_the_way(mesh, monkeypatch):
    sizes = []
    save = torch.export.save

    def watched(program, path):
        save(program, path)
        sizes.append(os.path.getsize(path))

    monkeypatch.setattr(torch.export, "save", watched)
    torch.manual_seed(0)
    wide = nn.Sequential(nn.Linear(512, 2048), nn.Linear(2048, 512))
    own = weft.tensor_parallel(exported(wide, torch.randn(4, 512)), mesh, {"0": "colwise", "1": "rowwise"})
    assert sizes[0] < 100_000 < own.state_dict["0.weight"].nbytes


@pytest.mark.parametrize("decomposed", [False, True])
def test_a_pass_of_a_list(decomposed):
    torch.manual_seed(0)
    x = torch.randn(4, 16)
    whole = exported(Block(), x, dynamic_shapes=({0: torch.export.Dim("batch", max=64)},))
    whole = whole.run_decompositions() if decomposed else whole
    state = dict(whole.state_dict)
    sharding = weft.TensorParallelTransformPass(
        dist.get_rank(), 2, "cpu", whole.state_dict, whole.graph_signature, {"up": "colwise", "down": "rowwise"}
    )
    module = whole.graph_module
    for each in (lambda given: PassResult(given, False), sharding):
        result = each(module)
        module = result.graph_module
    assert result.modified and module is not whole.graph_module
    assert all(whole.state_dict[name] is tensor for name, tensor in state.items())
    names = [*sharding.graph_signature.parameters, *sharding.graph_signature.buffers]
    (actual,) = module(*(sharding.state_dict[name] for name in names), x)
    torch.testing.assert_close(actual, whole.module()(x), rtol=1e-4, atol=1e-4)


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
