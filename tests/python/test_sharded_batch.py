"""Modules of torch.nn on a sharded batch: results of a single device, and no activation is gathered."""

import copy

import pytest
import torch
import weft
from torch import nn
from weft import Shard

# By name: the module and the shapes of a sample of its inputs.
PLANE, ROW, VOLUME = (4, 6, 6), (4, 8), (2, 4, 4, 4)
MODULES = {
    "Linear": (nn.Linear(8, 6), [(8,)]),
    "Conv1d": (nn.Conv1d(4, 3, 3), [ROW]),
    "Conv2d": (nn.Conv2d(4, 3, 3, stride=2, padding=1), [PLANE]),
    "Conv2d, reflecting": (nn.Conv2d(4, 3, 3, padding=1, padding_mode="reflect"), [PLANE]),
    "Conv3d": (nn.Conv3d(2, 3, 2), [VOLUME]),
    "ConvTranspose2d": (nn.ConvTranspose2d(4, 3, 3, stride=2), [PLANE]),
    "Unfold": (nn.Unfold(2), [PLANE]),
    "Fold": (nn.Fold((4, 4), 2), [(12, 9)]),
    "MaxPool2d": (nn.MaxPool2d(2), [PLANE]),
    "AvgPool2d": (nn.AvgPool2d(2), [PLANE]),
    "LPPool2d": (nn.LPPool2d(2, 2), [PLANE]),
    "AdaptiveMaxPool2d": (nn.AdaptiveMaxPool2d(3), [PLANE]),
    "AdaptiveAvgPool2d": (nn.AdaptiveAvgPool2d(1), [PLANE]),
    "ReflectionPad1d": (nn.ReflectionPad1d(1), [ROW]),
    "ReflectionPad2d": (nn.ReflectionPad2d(1), [PLANE]),
    "ReflectionPad3d": (nn.ReflectionPad3d(1), [VOLUME]),
    "ReplicationPad1d": (nn.ReplicationPad1d(1), [ROW]),
    "ReplicationPad2d": (nn.ReplicationPad2d(1), [PLANE]),
    "ReplicationPad3d": (nn.ReplicationPad3d(1), [VOLUME]),
    "ZeroPad2d": (nn.ZeroPad2d(1), [PLANE]),
    "PReLU": (nn.PReLU(4), [ROW]),
    "GELU": (nn.GELU(), [ROW]),
    "GLU": (nn.GLU(), [ROW]),
    "LogSigmoid": (nn.LogSigmoid(), [ROW]),
    "Softmax": (nn.Softmax(1), [ROW]),
    "LayerNorm": (nn.LayerNorm(8), [ROW]),
    "RMSNorm": (nn.RMSNorm(8), [ROW]),
    "LocalResponseNorm": (nn.LocalResponseNorm(2), [PLANE]),
    "CosineSimilarity": (nn.CosineSimilarity(), [(8,), (8,)]),
    "PairwiseDistance": (nn.PairwiseDistance(), [(8,), (8,)]),
    "ChannelShuffle": (nn.ChannelShuffle(2), [PLANE]),
    "Upsample": (nn.Upsample(scale_factor=2, mode="bilinear"), [PLANE]),
    "Flatten": (nn.Flatten(), [PLANE]),
    "MSELoss": (nn.MSELoss(), [(8,), (8,)]),
    "HuberLoss": (nn.HuberLoss(), [(8,), (8,)]),
    "GaussianNLLLoss": (lambda x, y: nn.functional.gaussian_nll_loss(x, y, y.square() + 0.1), [(8,), (8,)]),
    "CrossEntropyLoss": (lambda x: nn.functional.cross_entropy(x, x.detach().argmax(1)), [(8,)]),
    "MultiLabelSoftMarginLoss": (nn.MultiLabelSoftMarginLoss(), [(8,), (8,)]),
    "TripletMarginLoss": (nn.TripletMarginLoss(), [(8,), (8,), (8,)]),
}


def run(module, inputs):
    inputs = [x.detach().requires_grad_() for x in inputs]
    y = module(*inputs)
    y.square().sum().backward()
    parameters = module.parameters() if isinstance(module, nn.Module) else ()
    return [y, *(x.grad for x in inputs), *(p.grad for p in parameters)]


def replicated(module, mesh):
    return weft.distribute_module(copy.deepcopy(module), mesh) if isinstance(module, nn.Module) else module


@pytest.mark.parametrize("ranks, batch", [(2, 4), (2, 5), (4, 5)])  # of 5 samples the last of 4 ranks has none
@pytest.mark.parametrize("name", MODULES)
def test_activations_of_a_sharded_batch_stay_where_they_are(name, ranks, batch):
    module, shapes = MODULES[name]
    generator = torch.Generator().manual_seed(0)
    inputs = [torch.randn(batch, *shape, generator=generator) for shape in shapes]
    expected = run(copy.deepcopy(module), inputs)

    def rank_program(rank):
        mesh = weft.init_device_mesh("cpu", (ranks,))
        parallel = replicated(module, mesh)
        sharded = [weft.distribute_tensor(x, mesh, [Shard(0)]) for x in inputs]
        with weft.comm_debug() as communication:
            actual = run(parallel, sharded)
        assert set(communication.by_collective()) <= {"all_reduce"}  # of losses and of gradients of parameters
        for a, b in zip(actual, expected, strict=True):
            assert (a is None) == (b is None)
            if a is not None:
                torch.testing.assert_close(a.full_tensor(), b, rtol=1e-4, atol=1e-5)

    weft.run_on_ranks(ranks, rank_program)
