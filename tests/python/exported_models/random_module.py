"""Random programs: a list of operators on tensors of random shapes, some of them layers with parameters, and a random plan."""

import random
from dataclasses import dataclass, field

import torch
from torch import nn

from .model import MESHES
from .random_steps import OPERATORS

LARGEST = 30.0  # of the values, so that rounding stays small against the tolerance
MOST_ELEMENTS = 400
MOST_DIMS = 5
WORDS = 11


@dataclass(frozen=True)
class Step:
    operator: str  # or the name of a layer
    operands: tuple
    numbers: tuple = ()


class Boundary(nn.Module):
    """A module with no parameters, at which a plan may ask for a layout."""

    def forward(self, x):
        return x * 1.5


class RandomModule(nn.Module):
    """Its values are its inputs, then what every step gives; those that no other step takes go out."""

    def __init__(self, steps, layers):
        super().__init__()
        self.steps, self.layers = steps, nn.ModuleDict(layers)

    def forward(self, *inputs):
        values = list(inputs)
        for step in self.steps:
            values.append(apply(step, values, self.layers))
        taken = {operand for step in self.steps for operand in step.operands}
        return tuple(value for i, value in enumerate(values) if i >= len(inputs) and i not in taken)


def apply(step, values, layers):
    operands = [values[i] for i in step.operands]
    if step.operator in layers:
        return layers[step.operator](*operands)
    return OPERATORS[step.operator].run(*operands, *step.numbers)


@dataclass
class RandomProgram:
    seed: int
    mesh: str
    inputs: tuple
    steps: list = field(default_factory=list)
    layers: dict = field(default_factory=dict)
    plan: dict = field(default_factory=dict)

    def module(self):
        return RandomModule(tuple(self.steps), self.layers)

    def __str__(self):
        """A line per value: "v3 = mul of v0 v1"."""
        lines = [f"seed {self.seed}, mesh {self.mesh}, plan {self.plan}"]
        lines += [f"v{i} = input {list(value.shape)}" for i, value in enumerate(self.inputs)]
        for i, step in enumerate(self.steps, len(self.inputs)):
            numbers = f" with {list(step.numbers)}" if step.numbers else ""
            lines.append(f"v{i} = {self.layers.get(step.operator, step.operator)} of {step.operands}{numbers}")
        return "\n".join(lines)


def layout_text(dice, rank):
    """R or S of a dim, for a value of so many dims."""
    dim = dice.randrange(-1, rank)
    return "R" if dim < 0 else f"S({dim})"


def random_layer(dice, value):
    """A layer that takes the value, and its entry in the plan, or None."""
    rank = value.dim()
    if not value.is_floating_point():
        layer = nn.Embedding(WORDS, dice.randrange(2, 8), dtype=torch.float64)
        style = dice.choice([None, "colwise", "rowwise"])
        return layer, style and {"style": style, "output": layout_text(dice, rank + 1)}
    kind = dice.choice(["linear", "linear", "norm", "boundary"]) if rank else "boundary"
    if kind == "linear":
        layer = nn.Linear(value.shape[-1], dice.randrange(1, 10), bias=dice.random() < 0.5, dtype=torch.float64)
        style = dice.choice([None, "colwise", "colwise", "rowwise", "rowwise"])
        wants = {"output": layout_text(dice, rank)} if dice.random() < 0.5 else {}
        return layer, style and {"style": style, **wants}
    if kind == "norm":
        style = dice.choice([None, {"style": "sequence", "dim": dice.randrange(rank)}])
        return nn.LayerNorm(value.shape[-1], dtype=torch.float64), style
    wanted = f"-> {layout_text(dice, rank)}"
    side = dice.choice(["input", "output"])
    return Boundary(), {"style": side, f"{side}s": [wanted]}


def is_useful(value):
    return 0 < value.numel() <= MOST_ELEMENTS and value.dim() <= MOST_DIMS and value.abs().max() <= LARGEST


def try_step(dice, program, values):
    """Adds a step and what it gives; nothing where an operator does not take the operands, or the result is not of use."""
    # The latest ones more often, so that programs are deep.
    first = len(values) - 1 - dice.randrange(min(len(values), 4)) if dice.random() < 0.5 else dice.randrange(len(values))
    if not values[first].is_floating_point() and dice.random() < 0.7:
        return
    layers = {}
    if dice.random() < 0.25 or not values[first].is_floating_point():
        name = f"layer_{len(program.layers)}"
        layers[name], entry = random_layer(dice, values[first])
        step = Step(name, (first,))
    else:
        name, entry = dice.choice(list(OPERATORS)), None
        found = OPERATORS[name].propose(dice, values, first)
        if found is None or not all(values[i].is_floating_point() for i in found[0]):
            return
        step = Step(name, *found)
    try:
        with torch.no_grad():
            result = apply(step, values, layers)
    except (RuntimeError, IndexError, ValueError):
        return
    if is_useful(result):
        values.append(result)
        program.steps.append(step)
        program.layers.update(layers)
        if entry is not None:
            program.plan[f"layers.{step.operator}"] = entry


def random_inputs(dice):
    common = dice.randrange(1, 8)  # a size that inputs share, so that they fit each other

    def shape(most):
        return [common if dice.random() < 0.5 else dice.randrange(1, 8) for _ in range(dice.randrange(1, most + 1))]

    inputs = [torch.rand(shape(3), dtype=torch.float64) * 2 - 1 for _ in range(dice.randrange(2, 4))]
    return (*inputs, torch.randint(WORDS, shape(2)))


def random_program(seed):
    """Eight to twenty steps; the same for the same seed."""
    dice = random.Random(seed)
    torch.manual_seed(seed)
    program = RandomProgram(seed, MESHES[seed % len(MESHES)], random_inputs(dice))
    values, length = list(program.inputs), dice.randrange(8, 21)
    while len(program.steps) < length:
        try_step(dice, program, values)
    if dice.random() < 0.5:
        wanted = [f"-> {layout_text(dice, value.dim())}" for value in program.inputs]
        program.plan[""] = {"style": "input", "inputs": wanted}
    return program
