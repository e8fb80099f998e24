"""Fully sharded training: the losses and gradients of one device, with the collectives that it has to have."""

import copy

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from weft import Replicate, Shard

DIM, HIDDEN, ROWS = 12, 29, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, HIDDEN)
        self.down = nn.Linear(HIDDEN, DIM)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    """Prime sizes, a parameter of one element, tied weights, a block that runs twice."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(7, DIM, bias=False)
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.scale = nn.Parameter(torch.ones(1))
        self.last = nn.Linear(7, DIM, bias=False)
        self.last.weight = self.first.weight
        self.use_reentrant = None
        self.twice = False

    def forward(self, x):
        x = self.first(x)
        for block in [*self.blocks, *([self.blocks[0]] if self.twice else [])]:
            x = block(x) if self.use_reentrant is None else checkpoint(block, x, use_reentrant=self.use_reentrant)
        return F.linear(x * self.scale, self.last.weight.t())


# Made once: ranks as threads share torch's random numbers.
torch.manual_seed(1)
MODEL = Model()
DATA = [(torch.randn(ROWS, 7), torch.randn(ROWS, 7)) for _ in range(4)]


def plain_model(**settings):
    model = copy.deepcopy(MODEL)
    for name, value in settings.items():
        setattr(model, name, value)
    return model


def sharded(model, mesh, *args, **options):
    for block in model.blocks:
        weft.fully_shard(block, mesh, *args, **options)
    return weft.fully_shard(model, mesh, *args, **options)


def trained(model, to_batch=lambda t: t, steps=len(DATA), make=lambda p: torch.optim.AdamW(p, lr=0.02), micro=1):
    """The losses and the final gradients."""
    optimizer = make(model.parameters())
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        x, target = DATA[step % len(DATA)]
        for part in range(micro):
            if micro > 1 and hasattr(model, "set_requires_gradient_sync"):
                model.set_requires_gradient_sync(part == micro - 1)
            loss = F.mse_loss(model(to_batch(x.chunk(micro)[part])), to_batch(target.chunk(micro)[part])) / micro
            loss.backward()
            losses.append(loss.detach())
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return losses, [p.grad for p in model.parameters()]


def value(tensor):
    return tensor.full_tensor() if weft.is_dtensor(tensor) else tensor


def expect_as_one_device(given, expected, mesh=None, is_global=True):
    losses, gradients = given
    mesh = mesh._flatten() if mesh is not None and mesh.ndim > 1 else mesh
    for loss, of_one in zip(losses, expected[0], strict=True):
        if is_global:
            torch.testing.assert_close(value(loss), of_one, rtol=1e-5, atol=1e-6)
        else:
            everyone = weft.from_local(loss.reshape(1), mesh, [Shard(0)])
            torch.testing.assert_close(everyone.full_tensor().mean(), of_one, rtol=1e-5, atol=1e-6)
    for gradient, of_one in zip(gradients, expected[1], strict=True):
        assert (gradient is None) == (of_one is None)
        if of_one is not None:
            torch.testing.assert_close(value(gradient), of_one, rtol=1e-4, atol=1e-5)


def batches(mesh, is_global):
    if is_global:
        return lambda t: weft.distribute_tensor(t, mesh, [Shard(0)] * mesh.ndim)
    of_all = mesh._flatten()
    return lambda t: t.chunk(of_all.size())[of_all.get_local_rank()]


def on_mesh(shape, program):
    """With two sizes, of replicas and of shards."""
    shape = (shape,) if isinstance(shape, int) else shape
    names = ("replicate", "dp")[-len(shape) :]
    ranks = torch.Size(shape).numel()
    return weft.run_on_ranks(ranks, lambda rank: program(weft.init_device_mesh("cpu", shape, mesh_dim_names=names)))


def counts(log):
    """The calls that fully_shard has made."""
    found = {}
    for row in log.rows:
        if row.operator == "fully_shard":
            found[row.collective] = found.get(row.collective, 0) + row.calls
    return found


SHAPES = pytest.mark.parametrize("shape", [2, (2, 2)], ids=["shards", "shards and replicas"])
VIEWS = pytest.mark.parametrize("is_global", [True, False], ids=["global view", "plain data"])


@VIEWS
@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("options", [{}, {"reshard_after_forward": False}], ids=str)
def test_losses_and_gradients_are_those_of_one_device(ranks, options, is_global):
    expected = trained(plain_model())

    def program(mesh):
        given = trained(sharded(plain_model(), mesh, **options), batches(mesh, is_global))
        expect_as_one_device(given, expected, mesh, is_global)

    on_mesh(ranks, program)


@VIEWS
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpointed_blocks(use_reentrant, is_global):
    expected = trained(plain_model())

    def program(mesh):
        model = sharded(plain_model(use_reentrant=use_reentrant), mesh)
        expect_as_one_device(trained(model, batches(mesh, is_global)), expected, mesh, is_global)

    on_mesh(2, program)


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("options", [{}, {"reshard_after_forward": False}, {"reshard_after_forward": 2}], ids=str)
def test_checkpointed_blocks_are_gathered_as_often_as_others(use_reentrant, options):
    def program(mesh):
        model = sharded(plain_model(use_reentrant=use_reentrant), mesh, **options)
        x, target = (t.chunk(4)[mesh.get_local_rank()] for t in DATA[0])

        def step():
            F.mse_loss(model(x), target).backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(1)  # as the optimizer does

        step()
        step()
        with weft.comm_debug() as log:
            step()
        outer = 1 if options.get("reshard_after_forward", False) is False else 2
        # A reentrant checkpoint has no graph in forward, after which gathered blocks are freed.
        stays = options.get("reshard_after_forward") is False and not use_reentrant
        # Where backward follows, the last block of forward stays gathered for it.
        blocks = 3 if stays else 5 if not options and not use_reentrant else 6
        assert counts(log) == {"all_gather": blocks + outer, "reduce_scatter": 4}
        among = {row.mesh_dims for row in log.rows if row.collective == "all_gather" and row.operator == "fully_shard"}
        assert among == ({"dp", "inner"} if options.get("reshard_after_forward") == 2 else {"dp"})

    on_mesh(4, program)


@VIEWS
@SHAPES
def test_a_module_that_is_used_twice(shape, is_global):
    expected = trained(plain_model(twice=True))

    def program(mesh):
        model = sharded(plain_model(twice=True), mesh)
        expect_as_one_device(trained(model, batches(mesh, is_global)), expected, mesh, is_global)

    on_mesh(shape, program)


@VIEWS
@SHAPES
def test_accumulated_gradients(shape, is_global):
    expected = trained(plain_model(), micro=2)

    def program(mesh):
        model = sharded(plain_model(), mesh)
        expect_as_one_device(trained(model, batches(mesh, is_global), micro=2), expected, mesh, is_global)

    on_mesh(shape, program)


@VIEWS
@SHAPES
def test_frozen_and_unused_parameters(shape, is_global):
    def make():
        model = plain_model()
        model.blocks[1].requires_grad_(False)
        model.blocks[0].norm.requires_grad_(False)
        model.unused = nn.Linear(3, 5)
        return model

    expected = trained(make())

    def program(mesh):
        model = sharded(make(), mesh)
        expect_as_one_device(trained(model, batches(mesh, is_global)), expected, mesh, is_global)

    on_mesh(shape, program)


@VIEWS
def test_hybrid_sharding(is_global):
    expected = trained(plain_model())

    def program(mesh):
        model = sharded(plain_model(), mesh)
        expect_as_one_device(trained(model, batches(mesh, is_global)), expected, mesh, is_global)

    on_mesh((2, 2), program)


PLAN = {
    "blocks.*.up": weft.ColwiseParallel(use_local_output=False),
    "blocks.*.down": weft.RowwiseParallel(use_local_output=False),
}

LOCAL_PLAN = {"blocks.*.up": weft.ColwiseParallel(use_local_output=False), "blocks.*.down": weft.RowwiseParallel()}


def test_tensor_parallel_inside_in_the_global_view():
    expected = trained(plain_model())

    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        model = weft.parallelize_module(plain_model(), mesh, PLAN, mesh_dim="tp")
        model = sharded(model, mesh, "dp")
        assert str(model.blocks[0].up.weight.placements[0]).startswith("S(0|")
        given = trained(model, lambda t: weft.distribute_tensor(t, mesh, [Shard(0), Replicate()]))
        expect_as_one_device(given, expected)

    weft.run_on_ranks(4, program)


@pytest.mark.parametrize("how", ["foreach", "fused"])
def test_tensor_parallel_inside_with_plain_data(how):
    """The optimizer has parameters on meshes over dp alone, and over dp and tp."""
    expected = trained(plain_model())

    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        model = weft.parallelize_module(plain_model(), mesh["tp"], LOCAL_PLAN)
        model = sharded(model, mesh["dp"])
        assert len({p.device_mesh.ndim for p in model.parameters()}) == 2
        given = trained(model, batches(mesh["dp"], False), make=lambda p: torch.optim.AdamW(p, lr=0.02, **{how: True}))
        expect_as_one_device(given, expected, mesh["dp"], False)

    weft.run_on_ranks(4, program)


def test_the_collectives_of_a_step():
    def program(mesh):
        model = sharded(plain_model(), mesh)
        batch = batches(mesh, True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step():
            F.mse_loss(model(batch(DATA[0][0])), batch(DATA[0][1])).backward()
            optimizer.step()
            optimizer.zero_grad()

        step()
        for reshards in (True, False):
            model.set_reshard_after_forward(reshards)
            with weft.comm_debug() as log:
                step()
            # Of three blocks and the rest; set_reshard_after_forward was told to the outermost unit as well.
            assert counts(log) == {"all_gather": 8 if reshards else 4, "reduce_scatter": 4}
        for block in model.blocks:
            block.set_reshard_after_forward(True)
        step()
        with weft.comm_debug() as log:
            step()
        # The blocks in forward and the rest, and in backward the blocks but for the last one of forward.
        assert counts(log) == {"all_gather": 3 + 1 + 2, "reduce_scatter": 4}

    on_mesh(2, program)


def counts_by_dims(log):
    """The calls for parameters and their gradients, by collective and mesh dims."""
    found = {}
    for row in log.rows:
        if row.operator in ("fully_shard", "gradient"):
            key = f"{row.collective} over {row.mesh_dims}"
            found[key] = found.get(key, 0) + row.calls
    return found


@VIEWS
def test_the_collectives_of_a_step_with_replicas(is_global):
    def program(mesh):
        model = sharded(plain_model(), mesh)
        batch = batches(mesh, is_global)
        for _ in range(2):
            with weft.comm_debug() as log:
                F.mse_loss(model(batch(DATA[0][0])), batch(DATA[0][1])).backward()
        # Gradients of all units are reduced over the replicas in one bucket. With plain data each unit's votes are, too.
        replicas = 1 if is_global else 1 + 4
        assert counts_by_dims(log) == {
            "all_gather over dp": 7, "reduce_scatter over dp": 4, "all_reduce over replicate": replicas
        }

    on_mesh((2, 2), program)


def test_the_collectives_of_a_step_with_tensor_parallelism():
    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        model = sharded(weft.parallelize_module(plain_model(), mesh, PLAN, mesh_dim="tp"), mesh, "dp")
        x, target = (weft.distribute_tensor(t, mesh, [Shard(0), Replicate()]) for t in DATA[0])
        for _ in range(2):
            with weft.comm_debug() as log:
                F.mse_loss(model(x), target).backward()
        assert counts_by_dims(log) == {"all_gather over dp": 7, "reduce_scatter over dp": 4}
        # Per block one of the output, and one of the input's gradient.
        activations = [row for row in log.rows if row.operator not in ("fully_shard", "gradient")]
        assert {(row.collective, row.mesh_dims) for row in activations} == {("all_reduce", "tp")}
        assert sum(row.calls for row in activations) == 6

    weft.run_on_ranks(4, program)
