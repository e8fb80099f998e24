"""Builds a program while running it on plain tensors, so that every choice knows the shapes and values so far."""

import dataclasses
import random

import torch
from differential.program import Program, is_variable, names_of
from differential.runner import Record, mode_of, run_step
from differential.sides import Plain

MESHES = [(2,), (2,), (3,), (4,), (2, 2), (2, 2), (2, 3), (2, 2, 2)]
LARGEST = 1e4  # values beyond it are not made: their differences would say little
ERROR_SHARE = 0.25  # of steps that plain tensors refuse, so many stay, as the last of their program


def usable(value):
    """Autograd refuses to speak of a view whose base was written to in a way that it forbids."""
    try:
        return value.is_leaf or True
    except RuntimeError:
        return False


class Builder:
    def __init__(self, kind, seed, mesh=None, mode=None):
        self.random = random.Random(f"{kind} {seed}")
        mode = mode or self.choice("grad", "grad", "no_grad", "inference")
        self.program = Program(kind, seed, mesh or self.random.choice(MESHES), mode, ())
        self.count = 0
        self.ended = False
        self.start()

    def start(self):
        self.side, self.record = Plain(), Record([], [])
        self.namespace = self.side.namespace()

    def chance(self, share):
        return self.random.random() < share

    def choice(self, *options):
        return self.random.choice(options)

    def fresh(self, letter="v"):
        self.count += 1
        return f"{letter}{self.count - 1}"

    def add(self, text):
        """Adds a step. Where plain tensors refuse it, it is undone, or stays as the last step of the program."""
        if self.ended or text is None:
            return False
        try:
            with mode_of(self.program):
                run_step(text, self.side, self.namespace, self.record)
            fits = all(self.fits(self.namespace[name]) for name in self.record.made[-1])
        except Exception as error:
            if self.chance(ERROR_SHARE) and not isinstance(error, (NameError, SyntaxError, AttributeError)):
                self.ended = True
                self.program = self.with_step(text)
                return False
            fits = False
        if fits:
            self.program = self.with_step(text)
        else:
            self.undo()
        return fits

    def with_step(self, text):
        return dataclasses.replace(self.program, steps=(*self.program.steps, text))

    def undo(self):
        """Runs the steps so far again. The choices between them ask views for is_leaf, which updates the history of a
        view; where plain tensors refuse a step without that, it is the last of the program."""
        self.start()
        with mode_of(self.program):
            for position, text in enumerate(self.program.steps):
                try:
                    run_step(text, self.side, self.namespace, self.record)
                except Exception:
                    self.ended = True
                    self.program = dataclasses.replace(self.program, steps=self.program.steps[: position + 1])
                    return

    def fits(self, value):
        if not isinstance(value, torch.Tensor) or value.device.type == "meta" or value.numel() == 0:
            return True
        return value.numel() <= 4096 and bool(value.detach().double().abs().max() < LARGEST)

    def tensors(self, wanted=lambda value: True):
        """The names of tensors for which `wanted` holds, oldest first."""
        named = ((name, self.namespace[name]) for name in self.every_tensor())
        return [name for name, value in named if usable(value) and wanted(value)]

    def every_tensor(self):
        return [name for name, value in self.namespace.items() if is_variable(name) and isinstance(value, torch.Tensor)]

    def pick(self, wanted=lambda value: True):
        """A tensor's name, later ones more often; None where there is none."""
        names = self.tensors(wanted)
        return names[max(self.random.randrange(len(names)), self.random.randrange(len(names)))] if names else None

    def placements(self, ndim, partial=True, dtype=None):
        """One placement per mesh dim; partial ones of a tensor are all of kinds that can be reduced in any order."""
        kinds = self.choice(["sum"] if dtype == "torch.int64" else ["sum", "sum", "avg"], ["max"], ["min"])
        made = []
        for _ in self.program.mesh:
            what = self.random.random()
            if what < 0.04 and ndim > 0:
                made.append(f"SS({self.random.randrange(ndim)}, split_factor=2)")
            elif what < 0.55 and ndim > 0:
                made.append(f"S({self.random.randrange(ndim)})")
            elif what < 0.75 and partial:
                made.append(f"P('{self.random.choice(kinds)}')")
            else:
                made.append("R")
        return "[" + ", ".join(made) + "]"

    def shape(self, ndim=None):
        ndim = self.random.choice([0, 1, 2, 2, 2, 3, 3]) if ndim is None else ndim
        return tuple(self.random.choice([1, 2, 3, 4, 5, 6, 8] * 5 + [0]) for _ in range(ndim))

    def input(self, shape=None, letter="v", partial=True, grad=None, dtype=None):
        """Adds a tensor with a value of its own and returns its name."""
        shape = self.shape() if shape is None else shape
        name = self.fresh(letter)
        extra = f", {dtype}" if dtype else ""
        grad = self.chance(0.5) if grad is None else grad
        grad = grad and dtype != "torch.int64"
        extra += ", requires_grad=True" if grad and self.program.mode == "grad" else ""
        self.add(f"{name} = tensor({self.count}, {shape}, {self.placements(len(shape), partial, dtype)}{extra})")
        return name

    def read_everything(self):
        """Behind an error of plain tensors, too: where ranks go on, what they find there is compared with a second run."""
        for name in self.every_tensor():
            self.append(f"read({name})")
            value = self.namespace.get(name)  # none where a second run ended before it was made
            if value is not None and usable(value) and value.is_leaf and value.requires_grad:
                self.append(f"read({name}.grad)")

    def append(self, text):
        if not self.ended:
            self.add(text)
        elif all(name in self.namespace for name in names_of(text)[0] if is_variable(name)):
            self.program = self.with_step(text)

    def backward(self):
        """A gradient of one value; the error of a value that has been written to since is part of what is compared."""
        name = self.pick(lambda value: value.requires_grad and value.is_floating_point() and not value.is_leaf)
        if name:
            self.add(f"({name}.tanh().sum()).backward(retain_graph={self.chance(0.4)})")
