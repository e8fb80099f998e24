"""The examples, fully sharded: twenty steps have the losses and the gradients of one device, on any mesh and with every option."""

import copy
import functools
import sys
from pathlib import Path

import pytest
import torch
import weft
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.utils.checkpoint import checkpoint
from weft import Replicate, Shard

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples/python"))
import train

STEPS = 20
BLOCKS = {"llama": "layers", "gpt2": "h", "vit": "blocks"}
MESHES = [{"dp": 2}, {"dp": 4}, {"dp": 2, "tp": 2}, {"replicate": 2, "dp": 2}]
VIEWS = pytest.mark.parametrize("is_global", [True, False], ids=["global view", "plain data"])


@functools.cache
def initial(name):
    """In float64, so that 1e-5 says something: rounding is far below it after twenty steps."""
    return train.make_model(name).double()


def made(name):
    return copy.deepcopy(initial(name))


def blocks_of(name, model):
    return getattr(model, BLOCKS[name])


def batch_of(name, step):
    inputs, classes = train.EXAMPLES[name].batch(step)
    return (inputs.double() if inputs.is_floating_point() else inputs), classes


def trained(name, model, to_batch=lambda values: values, micro_batches=1):
    """The losses, and the gradients of the last step."""
    optimizer = train.make_optimizer(model)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        parts = zip(*(values.chunk(micro_batches) for values in batch_of(name, step)), strict=True)
        for number, part in enumerate(parts):
            if hasattr(model, "set_requires_gradient_sync"):
                model.set_requires_gradient_sync(number == micro_batches - 1)
            inputs, targets = (to_batch(values) for values in part)
            loss = train.loss_of(model(inputs), targets) / micro_batches
            loss.backward()
            losses.append(loss.detach())
        optimizer.step()
    return losses, {name: p.grad for name, p in model.named_parameters()}


def value(tensor):
    return tensor.full_tensor() if weft.is_dtensor(tensor) else tensor


def batch_dims(mesh):
    return [name for name in mesh.mesh_dim_names if name != "tp"]


def to_batch_on(mesh, is_global):
    """This rank's batch: distributed over all mesh dims but tp, or rows of its own."""
    over = batch_dims(mesh)
    if is_global:
        placements = [Shard(0) if name in over else Replicate() for name in mesh.mesh_dim_names]
        return lambda values: weft.distribute_tensor(values.contiguous(), mesh, placements, src_data_rank=None)

    def own_rows(values):
        for name in over:
            values = values.chunk(mesh.size(name))[mesh.get_local_rank(name)]
        if "tp" not in mesh.mesh_dim_names:
            return values
        return weft.distribute_tensor(values.contiguous(), mesh["tp"], [Replicate()], src_data_rank=None)

    return own_rows


def expect_as_one_device(given, expected, mesh, is_global):
    losses = torch.stack([value(loss) for loss in given[0]])
    if not is_global:
        for name in batch_dims(mesh):
            losses = weft.from_local(losses, mesh[name], [weft.Partial("avg")]).full_tensor()
    torch.testing.assert_close(losses, torch.stack(expected[0]), rtol=1e-5, atol=0)
    for name, of_one in expected[1].items():
        gradient = given[1][name]
        assert (gradient is None) == (of_one is None), name
        if of_one is not None:
            torch.testing.assert_close(value(gradient), of_one, rtol=1e-5, atol=1e-8, msg=lambda text, name=name: f"{name}: {text}")


def on_mesh(dims, program):
    def run(rank):
        return program(weft.init_device_mesh("cpu", tuple(dims.values()), mesh_dim_names=tuple(dims)))

    return weft.run_on_ranks(torch.Size(dims.values()).numel(), run, timeout=60)


def sharded(name, model, mesh, is_global=True, **options):
    if "tp" in mesh.mesh_dim_names:
        # Where ranks have rows of their own, the plan's mesh is one over tp alone.
        weft.parallelize_module(model, mesh if is_global else mesh["tp"], train.plan_file(name, False), mesh_dim="tp")
    over = batch_dims(mesh)
    options |= {"mesh_dim": "dp", "replicate_dim": over[0] if len(over) > 1 else None}
    of_shards = mesh if is_global or "tp" not in mesh.mesh_dim_names else mesh["dp"]
    for block in dict.fromkeys(blocks_of(name, model)):
        weft.fully_shard(block, of_shards, **options)
    return weft.fully_shard(model, of_shards, **options)


@functools.cache
def on_one_device(name):
    losses, gradients = trained(name, made(name))
    assert losses[-1] < 0.8 * losses[0], "it must learn something"
    return losses, gradients


@VIEWS
@pytest.mark.parametrize("dims", MESHES, ids=str)
@pytest.mark.parametrize("name", BLOCKS)
def test_every_example_on_every_mesh(name, dims, is_global):
    expected = on_one_device(name)

    def program(mesh):
        model = sharded(name, made(name), mesh, is_global)
        expect_as_one_device(trained(name, model, to_batch_on(mesh, is_global)), expected, mesh, is_global)

    on_mesh(dims, program)


def test_replicas_shards_and_tensor_parallel_together():
    expected = on_one_device("llama")

    def program(mesh):
        model = sharded("llama", made("llama"), mesh)
        placements = model.layers[0].feed_forward.w1.weight.placements
        assert placements[0] == Replicate() and isinstance(placements[1], weft.RaggedShard) and placements[2] == Shard(0)
        expect_as_one_device(trained("llama", model, to_batch_on(mesh, True)), expected, mesh, True)

    on_mesh({"replicate": 2, "dp": 2, "tp": 2}, program)


class Recomputed(nn.Module):
    def __init__(self, block, use_reentrant):
        super().__init__()
        self.block, self.use_reentrant = block, use_reentrant

    def forward(self, *inputs):
        return checkpoint(self.block, *inputs, use_reentrant=self.use_reentrant)


def recomputed_outside(model, mesh, use_reentrant):
    """The unit is inside of what is computed anew."""
    for k, block in enumerate(model.layers):
        model.layers[k] = Recomputed(weft.fully_shard(block, mesh), use_reentrant)
    return weft.fully_shard(model, mesh)


def recomputed_inside(model, mesh, use_reentrant):
    for block in model.layers:
        for owner, name in ((block, "attention"), (block, "feed_forward")):
            setattr(owner, name, Recomputed(getattr(owner, name), use_reentrant))
        weft.fully_shard(block, mesh)
    return weft.fully_shard(model, mesh)


def prefetching(model, mesh):
    sharded("llama", model, mesh)
    first, second = model.layers
    model.set_modules_to_forward_prefetch([first, second])
    first.set_modules_to_forward_prefetch([])
    second.set_modules_to_backward_prefetch([first])
    return model


OPTIONS = {
    "reshard_after_forward=False": functools.partial(sharded, "llama", reshard_after_forward=False),
    "reshard_after_forward=True": functools.partial(sharded, "llama", reshard_after_forward=True),
    "recomputed, reentrant": functools.partial(recomputed_outside, use_reentrant=True),
    "recomputed": functools.partial(recomputed_outside, use_reentrant=False),
    "recomputed inside, reentrant": functools.partial(recomputed_inside, use_reentrant=True),
    "recomputed inside": functools.partial(recomputed_inside, use_reentrant=False),
    "prefetch": prefetching,
}


@VIEWS
@pytest.mark.parametrize("option", OPTIONS)
def test_options(option, is_global):
    losses, gradients = on_one_device("llama")

    def program(mesh):
        model = OPTIONS[option](made("llama"), mesh)
        given = trained("llama", model, to_batch_on(mesh, is_global))
        named = {name.replace(".block.", ".").replace(".block.", "."): gradient for name, gradient in given[1].items()}
        expect_as_one_device((given[0], named), (losses, gradients), mesh, is_global)

    on_mesh({"dp": 2}, program)


@VIEWS
def test_two_micro_batches_are_accumulated(is_global):
    expected = trained("llama", made("llama"), micro_batches=2)

    def program(mesh):
        model = sharded("llama", made("llama"), mesh)
        expect_as_one_device(trained("llama", model, to_batch_on(mesh, is_global), 2), expected, mesh, is_global)

    on_mesh({"dp": 2}, program)


def with_frozen_and_unused(model):
    model.tok_embeddings.requires_grad_(False)
    model.layers[0].attention.requires_grad_(False)
    model.layers[1].ffn_norm.requires_grad_(False)
    model.unused = nn.Linear(3, 5, dtype=torch.float64)
    return model


def with_a_block_that_is_used_twice(model):
    model.layers = nn.ModuleList([model.layers[0], model.layers[1], model.layers[0]])
    return model


@VIEWS
@pytest.mark.parametrize("change", [with_frozen_and_unused, with_a_block_that_is_used_twice])
def test_odd_models(change, is_global):
    changed = change(made("llama"))
    expected = trained("llama", copy.deepcopy(changed))

    def program(mesh):
        model = sharded("llama", copy.deepcopy(changed), mesh)
        expect_as_one_device(trained("llama", model, to_batch_on(mesh, is_global)), expected, mesh, is_global)

    on_mesh({"dp": 2}, program)


@VIEWS
def test_deferred_initialisation(is_global):
    def made_on(device):
        with torch.device(device):
            return train.EXAMPLES["llama"].make().double()

    def with_tables(module):
        if not isinstance(module, train.Llama):
            return NotImplemented
        module.cosines.copy_(initial("llama").cosines)
        module.sines.copy_(initial("llama").sines)

    def program(mesh):
        model = sharded("llama", made_on("meta"), mesh)
        weft.materialize(model, seed=7, init_fn=with_tables)
        # The values that one device would begin with, whatever the mesh.
        one = made("llama")
        with torch.no_grad():
            for name, parameter in one.named_parameters():
                parameter.copy_(model.get_parameter(name).full_tensor())
        given = trained("llama", model, to_batch_on(mesh, is_global))
        expect_as_one_device(given, trained("llama", one), mesh, is_global)

    on_mesh({"dp": 2}, program)


def test_mixed_precision_is_that_of_plain_code_which_casts_alike():
    """Each rank's rows are computed in bfloat16 from parameters that were cast, and gradients added up and averaged in float32."""
    half = torch.bfloat16
    model = train.make_model("llama")
    reference, losses = copy.deepcopy(model), []
    optimizer = train.make_optimizer(reference)
    for step in range(STEPS):
        optimizer.zero_grad()
        of_rows = []
        for inputs, targets in zip(*(values.chunk(2) for values in batch_of("llama", step)), strict=True):
            cast = {name: p.detach().to(half).requires_grad_() for name, p in reference.named_parameters()}
            tables = {name: table.to(half) for name, table in reference.named_buffers()}  # inputs of blocks are cast, too
            logits = torch.func.functional_call(reference, cast | tables, inputs)
            of_rows.append(train.loss_of(logits.float(), targets))
            of_rows[-1].backward()
            for name, p in reference.named_parameters():
                p.grad = cast[name].grad.float() / 2 + (0 if p.grad is None else p.grad)
        losses.append(torch.stack(of_rows).detach().mean())
        optimizer.step()
    expected = losses, {name: p.grad for name, p in reference.named_parameters()}

    def program(mesh):
        inner = MixedPrecisionPolicy(half, torch.float32)
        given = copy.deepcopy(model)
        for block in given.layers:
            weft.fully_shard(block, mesh, mp_policy=inner)
        weft.fully_shard(given, mesh, mp_policy=MixedPrecisionPolicy(half, torch.float32, torch.float32))
        expect_as_one_device(trained("llama", given, to_batch_on(mesh, False)), expected, mesh, False)

    on_mesh({"dp": 2}, program)


def fully_shard_calls(log):
    counts = {}
    for row in log.rows:
        if row.operator == "fully_shard":
            counts[row.collective] = counts.get(row.collective, 0) + row.calls
    return counts


@VIEWS
def test_sharded_optimizer_state_alone(is_global):
    """ZeRO-1: gathered parameters stay until the optimizer has changed their shards."""
    expected = on_one_device("llama")

    def program(mesh):
        model = sharded("llama", made("llama"), mesh, reshard_after_forward=False)
        model.set_reshard_after_backward(False)
        expect_as_one_device(trained("llama", model, to_batch_on(mesh, is_global)), expected, mesh, is_global)
        train.make_optimizer(model).step()
        inputs, targets = (to_batch_on(mesh, is_global)(values) for values in batch_of("llama", 0))
        with weft.comm_debug() as log:
            train.loss_of(model(inputs), targets).backward()
        assert fully_shard_calls(log) == {"all_gather": 3, "reduce_scatter": 3}

    on_mesh({"dp": 2}, program)


@VIEWS
def test_resharding_to_neighbours(is_global):
    """Each pair of four ranks keeps the parameters for backward, whose gather is among two then."""
    expected = on_one_device("llama")

    def program(mesh):
        model = sharded("llama", made("llama"), mesh, is_global, reshard_after_forward=2)
        expect_as_one_device(trained("llama", model, to_batch_on(mesh, is_global)), expected, mesh, is_global)
        received = {}
        for to in (True, 2):
            for module in (model, *model.layers):
                module._weft_unit.set_reshard_after_forward(True) if to is True else module._weft_unit.set_reshard_to(to)
            train.make_optimizer(model).step()
            inputs, targets = (to_batch_on(mesh, is_global)(values) for values in batch_of("llama", 0))
            logits = model(inputs)
            with weft.comm_debug() as log:
                train.loss_of(logits, targets).backward()
            received[to] = sum(row.bytes for row in log.rows if (row.operator, row.collective) == ("fully_shard", "all_gather"))
        # Of four quarters three are those of others, of two halves one is; parts of the buffer are of equal length, shards are not.
        assert received[2] == pytest.approx(received[True] * (1 / 2) / (3 / 4), rel=0.1)

    on_mesh({"dp": 4}, program)
