"""A program as data: one Python statement per step, over tensors that may be plain or distributed."""

import ast
import dataclasses
import functools
import math
import re


@functools.lru_cache(maxsize=4096)
def names_of(text):
    """The names that a statement reads and those that it assigns."""
    nodes = list(ast.walk(ast.parse(text)))
    changed = {node.target.id for node in nodes if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)}
    names = [node for node in nodes if isinstance(node, ast.Name)]
    reads = frozenset(node.id for node in names if isinstance(node.ctx, ast.Load))
    return reads | changed, frozenset(node.id for node in names if isinstance(node.ctx, ast.Store))


def is_variable(name):
    """Whether programs make this name: v0, p1, m2. All others belong to the namespace of a side."""
    return re.fullmatch(r"[a-z]\d+", name) is not None


@functools.lru_cache(maxsize=4096)
def compiled(text):
    return compile(text, f"<{text}>", "exec")


@dataclasses.dataclass(frozen=True)
class Program:
    kind: str
    seed: int
    mesh: tuple  # its shape
    mode: str  # "grad", "no_grad" or "inference"
    steps: tuple  # of texts
    beside: "Program | None" = None  # another program, on a second thread of each rank and a mesh of its own

    def ranks(self):
        return math.prod(self.mesh)

    def text(self):
        lines = [f"# {self.kind} {self.seed}: mesh {self.mesh}, mode {self.mode}", *self.steps]
        return "\n".join(lines) + (f"\n# at the same time, on a second thread:\n{self.beside.text()}" if self.beside else "")

    def without(self, dropped):
        """The program without the steps at these positions, and without those that need a name which they made."""
        defined, kept = set(), []
        for position, text in enumerate(self.steps):
            reads, assigns = names_of(text)
            missing = {name for name in reads if is_variable(name)} - defined
            if position not in dropped and not missing:
                kept.append(text)
                defined |= assigns
        return dataclasses.replace(self, steps=tuple(kept))
