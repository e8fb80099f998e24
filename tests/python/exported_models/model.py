"""What a model of the zoo is: a module made with torch alone, its inputs, and plans with what they are known to cost."""

from dataclasses import dataclass, field
from typing import Any, Callable

from torch import nn
from torch.export import Dim

MESHES = ("tp=2", "tp=3", "tp=4", "dp=2,tp=2")

BATCH = Dim("batch", max=64)
LENGTH = Dim("length", max=64)


@dataclass(frozen=True)
class Plan:
    """The entries are those of a plan file (docs/parallel.md); the module "" is the program itself."""

    name: str
    entries: dict
    # How often each collective runs in a call, where that is known of the layout as one would write it by hand; one that
    # is not named does not run at all. None where nothing is known.
    collectives: dict | None = None
    # Meshes on which the plan is an error, with what the error says, as a regular expression.
    refused: dict = field(default_factory=dict)
    meshes: tuple = MESHES
    # The variants that communicate so; all of them where none are named.
    counted_in: tuple | None = None


# Decomposed programs merge the batch with other dims. Where it does not divide by the ranks, or its size is open, parts of what
# is merged are no parts of the batch, and something has to move.
UNDECOMPOSED = ("exported", "dynamic", "strict", "strict_dynamic")
OF_FIXED_BATCH = (*UNDECOMPOSED, "decomposed", "strict_decomposed")

# Nothing is sharded, so nothing is communicated. Every model is run with it.
EMPTY = Plan("empty", {}, collectives={})


@dataclass(frozen=True)
class Model:
    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[..., tuple]
    plans: tuple = ()
    training: bool = False
    # Where sizes can be left open: as torch.export takes them, and keyword arguments of `inputs` for a call of other sizes.
    dynamic_shapes: Any = None
    other_sizes: dict = field(default_factory=dict)

    @property
    def all_plans(self):
        return (EMPTY, *self.plans)


def refused_heads(entry, *meshes):
    """The error of an entry whose heads the ranks do not divide."""
    pattern = entry.replace(".", r"\.").replace("*", r"\*").replace("[", r"\[")
    return {mesh: rf'plan entry "{pattern}" for module .*number of heads must be divisible' for mesh in meshes}
