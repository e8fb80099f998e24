"""Small programs that torch.export takes and few models have: each a call that some reader or pass could forget."""

from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch import nn

BATCH = torch.export.Dim("batch", min=2, max=64)


@dataclass(frozen=True)
class OddProgram:
    make: Callable[[], nn.Module]
    inputs: Callable[[], tuple]
    plan: dict
    dynamic_shapes: Any = None

    def export(self):
        torch.manual_seed(1)
        module, inputs = self.make().eval(), self.inputs()
        return torch.export.export(module, inputs, dynamic_shapes=self.dynamic_shapes), inputs


PROGRAMS: dict[str, OddProgram] = {}


def matrix():
    return (torch.randn(4, 8),)


def add(name, forward, inputs=matrix, **options):
    """A program of one function of the layers' output, so that some of its tensors are sharded."""

    class Program(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
            self.register_buffer("count", torch.zeros(3))

        def forward(self, *arguments):
            return forward(self, *arguments)

    assert name not in PROGRAMS
    PROGRAMS[name] = OddProgram(Program, inputs, **options)


def mlp(self, x):
    return self.down(torch.relu(self.up(x)))


def hidden(self, x):
    return torch.relu(self.up(x))


from odd_programs import arguments, outputs, regions, sizes, writes  # noqa: E402, F401
