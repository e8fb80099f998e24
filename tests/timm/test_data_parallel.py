"""Models of timm on a sharded batch, as people train them: every layer keeps the batch sharded, forward and backward; what is
communicated is what DistributedDataParallel communicates and one all-reduce of moments per batch norm; and training is that of a
single device, which sees the global batch."""

import copy

import pytest
import torch
import weft
from models import MODELS
from torch import nn
from weft import Replicate, Shard

RANKS = 2
SAMPLES = 4


def batch_of(model):
    generator = torch.Generator().manual_seed(2)
    images = torch.randn(SAMPLES, 3, model.image, model.image, generator=generator, dtype=torch.float64)
    return images, torch.arange(SAMPLES) % 4


def global_value(tensor):
    return (tensor.full_tensor() if weft.is_dtensor(tensor) else tensor).detach()


def train(model, images, labels, steps=3):
    """The losses of some steps, and all parameters and running statistics after them."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9)
    losses = []
    for _ in range(steps):
        loss = nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(global_value(loss))
    return losses, {name: global_value(value) for name, value in model.state_dict().items()}


def on_ranks(program, model):
    """Runs `program(model, images, labels)` on every rank: the model is replicated and the batch is sharded."""
    module, batch = model.make(), batch_of(model)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (RANKS,), mesh_dim_names=("dp",))
        parallel = weft.distribute_module(copy.deepcopy(module), mesh)
        return program(parallel, *(weft.distribute_tensor(each, mesh, [Shard(0)]) for each in batch))

    return weft.run_on_ranks(RANKS, rank_program)


def all_reduces(count):
    return {"all_reduce": count} if count else {}


def calls(counted):
    return {kind: number for kind, (number, _) in counted.by_collective().items()}


def buckets_of(model):
    """How many buckets the gradients fill: one is full when it holds so many bytes, and the last one may be less."""
    module, (images, labels) = model.make(), batch_of(model)
    sizes = []
    for parameter in module.parameters():
        parameter.register_hook(lambda gradient: sizes.append(gradient.nbytes))
    nn.functional.cross_entropy(module(images), labels).backward()
    buckets = filled = 0
    for size in sizes:
        filled += size
        if filled >= weft._C.gradient_bucket_bytes():
            buckets, filled = buckets + 1, 0
    return buckets + bool(filled)


@pytest.mark.parametrize("name", MODELS)
def test_the_batch_stays_sharded_and_collectives_are_those_of_ddp(name):
    model = MODELS[name]

    def program(module, images, labels):
        gathered, checked = [], 0

        def check(where, tensor):
            nonlocal checked
            checked += 1
            if tensor.placements != (Shard(0),):
                gathered.append((where, tensor.shape, tensor.placements))

        def after(path):
            def hook(_, inputs, output):
                depends_on_batch = any(weft.is_dtensor(x) and x.placements == (Shard(0),) for x in inputs)
                if depends_on_batch and weft.is_dtensor(output):
                    check(path, output)
                    if output.requires_grad:
                        output.register_hook(lambda gradient: check(f"the gradient of {path}", gradient))

            return hook

        for path, layer in module.named_modules():
            layer.register_forward_hook(after(path))
        with weft.comm_debug() as in_forward:
            logits = module(images)
        loss = nn.functional.cross_entropy(logits, labels)
        with weft.comm_debug() as in_backward:
            loss.backward()
        assert not gathered and checked > 2 * len(list(module.children()))
        assert all(p.grad.placements == (Replicate(),) for p in module.parameters())
        return calls(in_forward), calls(in_backward)

    norms = sum(isinstance(layer, nn.BatchNorm2d) for layer in model.make().modules())
    expected = all_reduces(norms), all_reduces(norms + buckets_of(model))
    assert on_ranks(program, model) == [expected] * RANKS


@pytest.mark.parametrize("name", MODELS)
def test_three_steps_are_those_of_one_device(name):
    model = MODELS[name]
    expected = train(model.make(), *batch_of(model))
    for computed in on_ranks(train, model):
        torch.testing.assert_close(computed, expected, rtol=1e-6, atol=1e-8)
