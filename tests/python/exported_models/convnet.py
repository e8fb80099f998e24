"""A residual convnet with batch norms, evaluated and in training: then the running statistics are written to."""

import torch
import torch.nn.functional as F
from torch import nn

from .model import BATCH, Model, Plan

CHANNELS = 10


class Block(nn.Module):
    def __init__(self, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, groups=2, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.Conv2d(channels, channels, 1, stride=stride)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


class Convnet(nn.Module):
    """In training also the statistics go out, so that a comparison sees what was written."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, CHANNELS, 3, padding=1), nn.BatchNorm2d(CHANNELS), nn.ReLU(inplace=True))
        self.pool = nn.MaxPool2d(2)
        self.blocks = nn.Sequential(Block(CHANNELS, 1), Block(CHANNELS, 2))
        self.hidden, self.bn, self.classifier = nn.Linear(CHANNELS, 18), nn.BatchNorm1d(18), nn.Linear(18, 7)
        for norm in self.norms():
            norm.running_mean.normal_(std=0.1)
            norm.running_var.uniform_(0.5, 1.5)

    def norms(self):
        return [module for module in self.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]

    def forward(self, images):
        x = self.blocks(self.pool(self.stem(images)))
        x = F.adaptive_avg_pool2d(x, 1).flatten(1)
        logits = self.classifier(F.relu(self.bn(self.hidden(x))))
        if not self.training:
            return logits
        norms = (self.stem[1], self.blocks[1].bn2, self.bn)
        return logits, [(norm.running_mean.clone(), norm.running_var.clone()) for norm in norms]


def images(batch=6):
    return (torch.randn(batch, 3, 10, 8),)


def by(dim):
    return {"style": "sequence", "dim": dim}


PLANS = (
    # The features of the batch norm between them are sharded as those of the layers.
    Plan("head", {"hidden": "colwise", "classifier": "rowwise"}),
    Plan("channels", {"blocks.*.bn?": by(1), "hidden": "colwise", "classifier": "rowwise"}),
    Plan("rows of the image", {"pool": by(2), "blocks.*.bn1": by(2)}),
    Plan("batch", {"": {"style": "input_output", "inputs": ["-> S(0)"], "outputs": ["-> S(0)"]}}),
)

OPEN = {"dynamic_shapes": ({0: BATCH},), "other_sizes": {"batch": 5}}

MODELS = [
    Model("convnet_eval", Convnet, images, PLANS, **OPEN),
    Model("convnet_train", Convnet, images, PLANS, training=True, **OPEN),
]
