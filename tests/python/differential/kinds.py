"""The kinds of programs, each a function from a seed to a Program."""

import dataclasses
import re

from differential import steps_modules, steps_operators, steps_training, steps_views, steps_writes
from differential.builder import Builder


def read(b):
    name = b.pick()
    return name and f"read({name})"


def add_steps(b, count, *tables):
    """Adds `count` steps; tables are of (function, weight)."""
    functions, weights = zip(*(entry for table in tables for entry in table))
    for _ in range(count):
        function = b.random.choices(functions, weights)[0]
        b.add(function(b))


def read_or_backward(b):
    if b.program.mode == "grad" and b.chance(0.25):
        b.backward()
        return None
    return read(b)


def inputs(b, low=2, high=4):
    shape = b.shape()
    dtype = b.choice(None, None, "torch.float32")
    for _ in range(b.random.randint(low, high)):
        own_dtype = b.choice(None, "torch.float32", "torch.int64") if b.chance(0.3) else dtype
        b.input(shape if b.chance(0.7) else None, dtype=own_dtype)


def operators(seed):
    """Operators and views of inputs in every layout, and their gradients."""
    b = Builder("operators", seed)
    inputs(b)
    casts = [(steps_operators.autocast, 1)] if b.chance(0.15) else []
    add_steps(b, b.random.randint(4, 12), steps_operators.STEPS, [(steps_views.view, 3)], casts)
    b.backward()
    b.read_everything()
    return b.program


def writes(seed):
    """Writes of every kind between the making and the reading of views."""
    b = Builder("writes", seed)
    inputs(b)
    tables = [(steps_operators.unary, 1), (steps_operators.binary, 1), (steps_views.view, 6), (read_or_backward, 2)]
    add_steps(b, b.random.randint(5, 14), tables, steps_writes.STEPS)
    b.read_everything()
    return b.program


def training(seed):
    """Optimizers, clipping and loading of parameters that have views."""
    b = Builder("training", seed, mode="grad")
    steps_training.build(b)
    b.read_everything()
    return b.program


def modules(seed):
    """Parallel modules whose inputs and parameters are written to between calls."""
    b = Builder("modules", seed)
    steps_modules.build(b)
    b.read_everything()
    return b.program


def meta(seed):
    """The same steps on tensors without data and on tensors with data, in either order: one must not see the other."""
    b = Builder("meta", seed)
    inputs(b)
    add_steps(b, b.random.randint(2, 8), steps_operators.STEPS, [(steps_views.view, 3)])
    with_data = [text for text in b.program.steps if not re.search(r"item\(\)|indices|backward", text)]
    program = dataclasses.replace(b.program, steps=tuple(with_data)).without(set())
    without_data = [re.sub(r"\bv(\d+)\b", r"m\1", text) for text in program.steps]
    without_data = [text[:-1] + ", device='meta')" if " = tensor(" in text else text for text in without_data]
    halves = [without_data, list(program.steps)]
    if b.chance(0.3):
        halves.reverse()
    reads = [f"read({text.split(' = ')[0]})" for half in halves for text in half if " = " in text]
    return dataclasses.replace(program, steps=(*halves[0], *halves[1], *reads))


def threads(seed):
    """Two programs at once on every rank, each on a mesh of its own over the same ranks."""
    first = operators(10 * seed)
    second = Builder("threads", seed, mesh=first.mesh)
    inputs(second)
    add_steps(second, 8, steps_operators.STEPS, [(steps_views.view, 2)])
    second.read_everything()
    return dataclasses.replace(first, kind="threads", seed=seed, beside=second.program)


KINDS = {
    "operators": operators, "writes": writes, "training": training, "modules": modules, "meta": meta, "threads": threads,
}  # fmt: skip
SHARES = ["writes", "operators", "writes", "training", "operators", "modules", "writes", "meta", "operators", "threads"]


def generate(seed, kind=None):
    """The program of a seed; without a kind, seeds take turns over all of them."""
    return KINDS[kind or SHARES[seed % len(SHARES)]](seed)
