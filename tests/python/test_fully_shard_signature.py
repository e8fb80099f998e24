"""The arguments and methods of PyTorch's fully_shard: each means the same here, or is refused with what to do instead."""

import copy

import pytest
import torch
import weft
from torch import nn
from torch.distributed.fsdp import DataParallelMeshDims, FSDPModule, MixedPrecisionPolicy, OffloadPolicy
from torch.nn import functional as F
from weft import RaggedShard, Replicate, Shard

RANKS, DIM, ROWS = 2, 12, 8


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(5, DIM)
        self.hidden = nn.Linear(DIM, DIM)
        self.norm = nn.LayerNorm(DIM)
        self.head = nn.Linear(DIM, 3)
        self.uses_head = True

    def forward(self, x):
        x = self.norm(F.gelu(self.hidden(self.first(x))))
        return self.head(x) if self.uses_head else x


torch.manual_seed(1)
MODEL = Model()
X, TARGET = torch.randn(ROWS, 5), torch.randn(ROWS, 3)


def on_mesh(program, shape=(RANKS,), names=("dp",)):
    size = torch.Size(shape).numel()
    return weft.run_on_ranks(size, lambda rank: program(weft.init_device_mesh("cpu", shape, mesh_dim_names=names)))


def own(tensor, mesh):
    return tensor.chunk(mesh.size())[mesh.mesh.flatten().tolist().index(weft._groups.current_world().rank)]


def gradients(model):
    return {name: p.grad.full_tensor() if weft.is_dtensor(p.grad) else p.grad for name, p in model.named_parameters()}


def plain_gradients(factor=1.0, steps=1):
    model = copy.deepcopy(MODEL)
    for _ in range(steps):
        F.mse_loss(model(X), TARGET).backward()
    return {name: p.grad * factor for name, p in model.named_parameters()}


def expect_same(given, expected):
    assert given.keys() == expected.keys()
    for name in expected:
        torch.testing.assert_close(given[name], expected[name], rtol=1e-5, atol=1e-6)


def counts(log):
    found = {}
    for row in log.rows:
        if row.operator == "fully_shard":
            found[row.collective] = found.get(row.collective, 0) + row.calls
    return found


@pytest.mark.parametrize(
    "options",
    [
        {"mixed_precision": torch.bfloat16},
        {"mixed_precision": MixedPrecisionPolicy(torch.bfloat16)},
        {"mp_policy": MixedPrecisionPolicy(torch.bfloat16)},
        {"mp_policy": torch.bfloat16},
    ],
    ids=["dtype", "policy", "mp_policy", "dtype as mp_policy"],
)
def test_names_of_mixed_precision(options):
    def program(mesh):
        model = weft.fully_shard(copy.deepcopy(MODEL), mesh, **options)
        assert model(own(X, mesh)).dtype == torch.bfloat16
        assert all(p.dtype == torch.float32 for p in model.parameters())

    on_mesh(program)


def test_one_name_of_an_option_is_given():
    def program(mesh):
        policy = MixedPrecisionPolicy(torch.bfloat16)
        with pytest.raises(ValueError, match="one of mp_policy and mixed_precision is required.* but got both"):
            weft.fully_shard(nn.Linear(2, 2), mesh, mp_policy=policy, mixed_precision=policy)
        with pytest.raises(ValueError, match="one of offload_policy and offload is required.* but got both"):
            weft.fully_shard(nn.Linear(2, 2), mesh, offload_policy=OffloadPolicy(), offload=OffloadPolicy())
        with pytest.raises(TypeError, match="a MixedPrecisionPolicy is required, or a dtype"):
            weft.fully_shard(nn.Linear(2, 2), mesh, mixed_precision="bf16")
        with pytest.raises(TypeError, match="an OffloadPolicy is required"):
            weft.fully_shard(nn.Linear(2, 2), mesh, offload=True)
        weft.fully_shard(nn.Linear(2, 2), mesh, offload=OffloadPolicy())

    on_mesh(program)


def test_several_modules_are_one_unit():
    expected = plain_gradients()

    def program(mesh):
        model = copy.deepcopy(MODEL)
        given = [model.norm, model.head]
        assert weft.fully_shard(given, mesh) is given
        weft.fully_shard(model, mesh, reshard_after_forward=True)
        for _ in range(2):
            model.zero_grad()
            with weft.comm_debug() as log:
                F.mse_loss(model(own(X, mesh)), own(TARGET, mesh)).backward()
            expect_same(gradients(model), expected)
            assert counts(log) == {"all_gather": 4, "reduce_scatter": 2}
        assert isinstance(model.norm, weft.FullyShardedModule) and isinstance(model.head, weft.FullyShardedModule)
        assert all(weft.is_dtensor(p) for p in model.parameters())

    on_mesh(program)


@pytest.mark.parametrize("has_outer", [True, False], ids=["in a fully sharded model", "in a plain one"])
def test_a_module_of_a_list_that_is_called_later(has_outer):
    """The head computes the loss of one chunk after another, outside of the model's forward."""

    def chunked(model, x, target):
        hidden = model(x)
        for rows, wanted in zip(hidden.chunk(2), target.chunk(2), strict=True):
            (F.mse_loss(model.head(rows), wanted) / 2).backward(retain_graph=True)

    def make():
        model = copy.deepcopy(MODEL)
        model.uses_head = False
        return model

    reference = make()
    chunked(reference, X, TARGET)
    expected = {name: p.grad for name, p in reference.named_parameters()}

    def program(mesh):
        model = make()
        weft.fully_shard([model.norm, model.head], mesh)
        if has_outer:
            weft.fully_shard(model, mesh)
        for _ in range(2):
            model.zero_grad()
            # Each rank's chunks are rows of its own; the mean over both is that over all chunks.
            chunked(model, own(X, mesh), own(TARGET, mesh))
            shards = gradients(model)
            if not has_outer:
                for name in ("first.weight", "first.bias", "hidden.weight", "hidden.bias"):
                    shards[name] = weft.from_local(shards[name], mesh, [weft.Partial("avg")]).full_tensor()
            expect_same(shards, expected)
        with torch.no_grad():
            model(own(X, mesh))
        assert all(weft.is_dtensor(p) for p in [*model.norm.parameters(), *model.head.parameters()])

    on_mesh(program)


def test_a_list_whose_forward_fails_can_be_repeated():
    expected = plain_gradients()

    def program(mesh):
        model = copy.deepcopy(MODEL)
        weft.fully_shard([model.norm, model.head], mesh)
        weft.fully_shard(model, mesh)
        head, model.head.forward = model.head.forward, lambda x: 1 / 0
        with pytest.raises(ZeroDivisionError):
            model(own(X, mesh))
        assert all(weft.is_dtensor(p) for p in model.parameters())
        model.head.forward = head
        F.mse_loss(model(own(X, mesh)), own(TARGET, mesh)).backward()
        expect_same(gradients(model), expected)

    on_mesh(program)


def test_without_a_mesh_it_is_one_over_all_ranks():
    def program(mesh):
        model = weft.fully_shard(copy.deepcopy(MODEL))
        assert model.head.weight.device_mesh == mesh
        assert weft.fully_shard(nn.Linear(4, 4), mesh_dim="fsdp").weight.device_mesh.mesh_dim_names == ("fsdp",)
        with weft.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("other",)):
            assert weft.fully_shard(nn.Linear(4, 4)).weight.device_mesh.mesh_dim_names == ("other",)

    on_mesh(program)


@pytest.mark.parametrize("asked", [lambda p: None, lambda p: Shard(0), lambda p: Shard(-1), lambda p: Shard(p.dim() - 1)])
@pytest.mark.parametrize("is_global", [True, False])
def test_a_placement_along_any_dim_may_be_asked_for(asked, is_global):
    expected = copy.deepcopy(MODEL)
    optimizer = torch.optim.AdamW(expected.parameters(), lr=0.05)
    for _ in range(3):
        optimizer.zero_grad()
        F.mse_loss(expected(X), TARGET).backward()
        optimizer.step()
    wanted = {name: p.grad for name, p in expected.named_parameters()}

    def program(mesh):
        model = weft.fully_shard(copy.deepcopy(MODEL), mesh, shard_placement_fn=asked)
        of_weight = asked(model.hidden.weight)
        assert model.hidden.weight.placements[0].dim == (0 if of_weight is None else of_weight.dim % 2)
        torch.testing.assert_close(model.first.weight.full_tensor(), MODEL.first.weight)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        x, target = ([weft.distribute_tensor(t, mesh, [Shard(0)]) if is_global else own(t, mesh) for t in (X, TARGET)])
        for _ in range(3):
            optimizer.zero_grad()
            F.mse_loss(model(x), target).backward()
            optimizer.step()
        expect_same(gradients(model), wanted)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(parameter.full_tensor(), expected.get_parameter(name), rtol=1e-4, atol=1e-5)

    on_mesh(program)


@pytest.mark.parametrize("how", [{"fused": True}, {"foreach": True}], ids=str)
@pytest.mark.parametrize(
    ("shape", "names"), [((2,), ("dp",)), ((2, 2), ("replicate", "dp"))], ids=["shards", "shards and replicas"]
)
def test_columns_are_optimized_by_any_kernel(shape, names, how):
    ranks = torch.Size(shape).numel()
    expected = copy.deepcopy(MODEL)
    optimizer_of_one = torch.optim.AdamW(expected.parameters(), lr=0.05)
    for _ in range(3):
        optimizer_of_one.zero_grad()
        F.mse_loss(expected(X), TARGET).backward()
        optimizer_of_one.step()

    def program(mesh):
        model = weft.fully_shard(copy.deepcopy(MODEL), mesh, shard_placement_fn=lambda p: Shard(p.dim() - 1))
        model.set_gradient_divide_factor(2.0 * ranks)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, **how)
        for _ in range(3):
            optimizer.zero_grad()
            (2 * F.mse_loss(model(own(X, mesh)), own(TARGET, mesh))).backward()
            optimizer.step()
        for parameter, of_one in zip(model.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(parameter.full_tensor(), of_one, rtol=1e-4, atol=1e-5)
            for name, value in optimizer.state[parameter].items():
                if name != "step":
                    wanted = optimizer_of_one.state[of_one][name]
                    torch.testing.assert_close(value.full_tensor(), wanted, rtol=1e-4, atol=1e-5)

    on_mesh(program, shape, names)


def test_columns_of_rows_that_tensor_parallelism_shards():
    expected = plain_gradients()

    def program(mesh):
        model = copy.deepcopy(MODEL)
        weft.parallelize_module(model, mesh, {"first": weft.ColwiseParallel(use_local_output=False), "head": weft.RowwiseParallel(use_local_output=False)})
        weft.fully_shard(model, mesh, "dp", shard_placement_fn=lambda p: Shard(1 if p.dim() == 2 else 0))
        assert [str(p) for p in model.first.weight.placements] == ["S(1|5:0)", "S(0)"]
        x, target = (weft.distribute_tensor(t, mesh, [Shard(0), Replicate()]) for t in (X, TARGET))
        F.mse_loss(model(x), target).backward()
        expect_same(gradients(model), expected)

    on_mesh(program, (2, 2), ("dp", "tp"))


def test_a_placement_that_means_nothing_is_refused():
    def program(mesh):
        for asked in (Shard(2), Replicate(), "rows"):
            with pytest.raises(NotImplementedError, match=r"None or Shard\(dim\) .* for 'weight' of shape \(4, 4\)"):
                weft.fully_shard(nn.Linear(4, 4), mesh, shard_placement_fn=lambda p, asked=asked: asked)

    on_mesh(program)


def test_mesh_dims_as_pytorch_names_them():
    def program(mesh):
        dims = DataParallelMeshDims(shard="shard", replicate="replicate")
        model = weft.fully_shard(nn.Linear(4, 4, bias=False), mesh, dp_mesh_dims=dims)
        assert model.weight.placements == (Replicate(), RaggedShard(0, [2, 2]))
        with pytest.raises(NotImplementedError, match="one mesh dim of shards and at most one of replicas"):
            weft.fully_shard(nn.Linear(4, 4), mesh, dp_mesh_dims=DataParallelMeshDims(shard=("replicate", "shard")))
        with pytest.raises(ValueError, match="one of dp_mesh_dims and mesh_dim is required"):
            weft.fully_shard(nn.Linear(4, 4), mesh, "shard", dp_mesh_dims=dims)

    on_mesh(program, (2, 2), ("replicate", "shard"))


def test_every_method_of_pytorchs_module_is_there():
    methods = {name for name in vars(FSDPModule) if not name.startswith("_")}
    assert not methods - set(vars(weft.FullyShardedModule))


def test_what_only_advises_changes_no_result():
    expected = plain_gradients()

    def program(mesh):
        model = weft.fully_shard(copy.deepcopy(MODEL), mesh)
        model.set_is_last_backward(False)
        model.set_unshard_in_backward(False)
        model.set_force_sum_reduction_for_comms(True)
        model.set_reduce_scatter_unused_params(True)
        model.set_reduce_scatter_max_input_buffers(2)
        model.set_separate_reduce_scatter_group()
        model.set_post_optim_event(None)
        F.mse_loss(model(own(X, mesh)), own(TARGET, mesh)).backward()
        expect_same(gradients(model), expected)
        for method in (model.set_custom_all_gather, model.set_custom_reduce_scatter):
            with pytest.raises(NotImplementedError, match="the collectives of the mesh are required"):
                method(None)

    on_mesh(program)


@pytest.mark.parametrize("shape", [(2,), (2, 2)], ids=["shards", "shards and replicas"])
def test_a_divide_factor_stands_for_the_number_of_ranks(shape):
    size = torch.Size(shape).numel()
    expected = plain_gradients(size / 3.0)

    def program(mesh):
        model = weft.fully_shard(copy.deepcopy(MODEL), mesh)
        model.set_gradient_divide_factor(3.0)
        F.mse_loss(model(own(X, mesh)), own(TARGET, mesh)).backward()
        expect_same(gradients(model), expected)
        model.zero_grad()
        x, target = (weft.distribute_tensor(t, mesh, [Shard(0)] * mesh.ndim) for t in (X, TARGET))
        with pytest.raises(NotImplementedError, match="a divide factor is for batches of plain tensors"):
            F.mse_loss(model(x), target).backward()
        model.reset_iter_state()

    on_mesh(program, shape, ("replicate", "shard")[-len(shape) :])


@pytest.mark.parametrize("is_global", [True, False], ids=["global view", "plain data"])
def test_gradients_accumulated_without_all_reduce(is_global):
    expected = plain_gradients(steps=3)

    def program(mesh):
        def batch(tensor):
            return weft.distribute_tensor(tensor, mesh, [Shard(0), Shard(0)]) if is_global else own(tensor, mesh)

        model = copy.deepcopy(MODEL)
        weft.fully_shard(model.hidden, mesh)
        weft.fully_shard(model, mesh)

        def step():
            with weft.comm_debug() as log:
                F.mse_loss(model(batch(X)), batch(TARGET)).backward()
            rows = [row for row in log.rows if row.operator != "mse_loss"]
            assert "reduce_scatter" in {row.collective for row in rows}
            return sum(row.bytes for row in rows if row.collective == "all_reduce")

        model.set_requires_all_reduce(False)
        votes = 0 if is_global else 4 * len(list(model.parameters()))  # which parameters the replicas use
        for _ in range(2):
            assert step() == votes
            assert all(p.grad is None for p in model.parameters())
        model.set_requires_all_reduce(True)
        assert step() > votes
        expect_same(gradients(model), expected)

    on_mesh(program, (2, 2), ("replicate", "shard"))


def test_a_hook_sees_and_may_change_reduced_gradients():
    expected = plain_gradients(2.0)

    def program(mesh):
        model = copy.deepcopy(MODEL)
        weft.fully_shard(model.hidden, mesh)
        weft.fully_shard(model, mesh)
        sizes = []

        def double(reduced):
            sizes.append(reduced.numel())
            reduced.mul_(2)

        for module in (model, model.hidden):
            module.set_all_reduce_hook(double)
        # Together the ranges of a unit hold its parameters, but for gaps before aligned ones.
        F.mse_loss(model(own(X, mesh)), own(TARGET, mesh)).backward()
        expect_same(gradients(model), expected)
        assert len(sizes) == 2
        of_all = weft.from_local(torch.tensor(sizes), mesh, [weft.Partial()]).full_tensor().sum()
        assert of_all >= sum(p.numel() for p in MODEL.parameters())
        with pytest.raises(NotImplementedError, match="stream of the backward pass"):
            model.set_all_reduce_hook(double, stream=object())

    def hybrid(mesh):
        with pytest.raises(NotImplementedError, match="a unit without replicas"):
            weft.fully_shard(nn.Linear(4, 4), mesh).set_all_reduce_hook(print)

    on_mesh(program)
    on_mesh(hybrid, (2, 2), ("replicate", "shard"))


def test_reset_after_a_backward_that_has_failed():
    expected = plain_gradients()

    def fail(gradient):
        raise ArithmeticError("in backward")

    def program(mesh):
        model = copy.deepcopy(MODEL)
        weft.fully_shard(model.hidden, mesh)
        weft.fully_shard(model, mesh)
        model.set_requires_gradient_sync(False)
        F.mse_loss(model(own(X, mesh)), own(TARGET, mesh)).backward()
        model.set_requires_gradient_sync(True)
        output = model(own(X, mesh))
        output.register_hook(fail)
        with pytest.raises(ArithmeticError):
            F.mse_loss(output, own(TARGET, mesh)).backward()
        model.reset_iter_state()
        assert all(weft.is_dtensor(p) for p in model.parameters())
        F.mse_loss(model(own(X, mesh)), own(TARGET, mesh)).backward()
        expect_same(gradients(model), expected)  # without those that were added up before

    on_mesh(program)
