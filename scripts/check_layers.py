#!/usr/bin/env python3
"""Checks that every include inside weft/ follows an edge declared by weft_layer(...) in CMakeLists.txt, and that the folders of
the Python package import each other without a cycle.

cmake/WeftLayer.cmake says what the declarations mean. Usage: check_layers.py [root of the tree]
"""

import ast
import re
from dataclasses import dataclass, field
from pathlib import Path

import complaints

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(weft/[^>]+)>)', re.MULTILINE)
DECLARATION = re.compile(r"^[ \t]*weft_layer\(([^)]*)\)", re.MULTILINE)

# Exceptions (ALSO) in all declarations together.
MOST_EXCEPTIONS = 1
# Layers that may not depend on others, even where an edge would make no cycle: (layer, on, those excepted, why).
APART = [("graph", "tensor", ("graph/capture", "graph/replay"), "passes work on programs, not on tensors")]


@dataclass
class Layer:
    name: str  # its folder below weft/: "core", "tensor/impl"
    depends: list = field(default_factory=list)  # "core", or "redistribute/plan" for one file of a layer
    also: list = field(default_factory=list)  # ("execute", "comm")


def declared_layers(cmake_text):
    """The layers by name, in the order of their declaration."""
    layers = {}
    for body in DECLARATION.findall(re.sub(r"#.*", "", cmake_text)):
        name, *words = body.split()
        layer, section = Layer(name), None
        for word in words:
            if word in ("DEPENDS", "ALSO"):
                section = word
            elif section == "DEPENDS":
                layer.depends.append(word)
            else:
                stem, _, other = word.partition(":")
                layer.also.append((stem, other))
        layers[name] = layer
    return layers


def layer_of(edge, layers):
    """The layer that the edge "tensor/impl" or "redistribute/plan" points to, and of the second the one file."""
    if edge in layers:
        return edge, None
    folder, _, stem = edge.rpartition("/")
    return (folder, stem) if folder in layers else (None, None)


def is_inside(layer, folder):
    return layer == folder or layer.startswith(folder + "/")


def check_declarations(layers):
    found, declared = [], []
    exceptions = [f"{layer.name}: {stem}:{other}" for layer in layers.values() for stem, other in layer.also]
    if len(exceptions) > MOST_EXCEPTIONS:
        found.append(f"CMakeLists.txt: {len(exceptions)} exceptions by ALSO, at most {MOST_EXCEPTIONS}: {', '.join(exceptions)}")
    for layer in layers.values():
        for edge in layer.depends + [other for _, other in layer.also]:
            target, _ = layer_of(edge, layers)
            if target not in declared:
                found.append(f"CMakeLists.txt: weft_layer({layer.name}): the layer {edge} is not declared before it")
            for apart, on, excepted, why in APART:
                if target and is_inside(layer.name, apart) and is_inside(target, on) and layer.name not in excepted:
                    found.append(f"CMakeLists.txt: weft_layer({layer.name}): may not depend on {edge}: {why}")
        declared.append(layer.name)
    return found


def complaint(file, target, layers):
    """Why weft/<file> may not include weft/<target>, or None. Both paths start below weft/."""
    if len(target.parts) == 1:
        return "the umbrella header is for users, include what is needed"
    layer = layers[file.parent.as_posix()]
    target_layer = target.parent.as_posix()
    also = {stem for stem, _ in layer.also}
    if target_layer == layer.name:
        if target.stem in also and file.stem not in also:
            return f"only {', '.join(sorted(also))} may, since {target.stem} has edges that the rest of {layer.name} has not"
        return None
    edges = layer.depends + [other for stem, other in layer.also if stem == file.stem]
    if any(layer_of(edge, layers) in ((target_layer, None), (target_layer, target.stem)) for edge in edges):
        return None
    return f"{layer.name} declares {', '.join(edges) or 'no edges'}"


def imported_modules(path):
    """What a module of the package weft imports from it when it is imported itself: ("weft._torch.seed", line)."""
    for statement in ast.parse(path.read_text()).body:
        if isinstance(statement, ast.ImportFrom) and statement.module:
            yield statement.module, statement.lineno
            yield from ((f"{statement.module}.{each.name}", statement.lineno) for each in statement.names)
        elif isinstance(statement, ast.Import):
            yield from ((each.name, statement.lineno) for each in statement.names)


def python_edges(root):
    """Of each folder of python/weft, and each module next to them, those that it imports: {"_torch": {"_gather": "file:line"}}.
    Imports inside of functions do not count, nor do those of the package by its own __init__.py."""
    package = root / "python/weft"
    edges = {path.stem if path.is_file() else path.name: {} for path in package.glob("*") if path.name != "__init__.py"}
    for path in sorted(package.rglob("*.py")):
        own = path.relative_to(package).parts[0].removesuffix(".py")
        for module, line in imported_modules(path) if own in edges else ():
            parts = module.split(".")
            if parts[0] == "weft" and len(parts) > 1 and parts[1] in edges and parts[1] != own:
                edges[own].setdefault(parts[1], f"{path.relative_to(root)}:{line}")
    return edges


def check_python(root):
    """The first cycle of the folders and modules of python/weft that each of them is found in."""
    edges, done, found = python_edges(root), set(), []

    def visit(name, path):
        if name in path:
            cycle = [*path[path.index(name) :], name]
            steps = (f"{a} imports {b} ({edges[a][b]})" for a, b in zip(cycle, cycle[1:]))
            found.append(f"python/weft: a cycle of imports: {', '.join(steps)}. Move what both need")
        elif name not in done:
            for other in edges[name]:
                visit(other, [*path, name])
            done.add(name)

    for name in sorted(edges):
        visit(name, [])
    return found


def check(root):
    """All complaints about the tree, as text."""
    layers = declared_layers((root / "CMakeLists.txt").read_text())
    found = check_declarations(layers) + check_python(root)
    for folder in sorted(p for p in (root / "weft").rglob("*") if p.is_dir()):
        name, files = folder.relative_to(root / "weft").as_posix(), [p for p in folder.iterdir() if p.is_file()]
        if files and name not in layers:
            found.append(f"weft/{name}: no weft_layer({name} ...) in CMakeLists.txt")
    for path in sorted((root / "weft").rglob("*")):
        file = path.relative_to(root / "weft")
        if path.suffix not in (".h", ".cpp") or file.parent.as_posix() not in layers:
            continue
        text = path.read_text()
        for match in INCLUDE.finditer(text):
            include = match[1] or match[2]
            where = f"weft/{file}:{text.count(chr(10), 0, match.start(match.lastindex)) + 1}"
            if not include.startswith("weft/"):
                found.append(f'{where}: "{include}" must be written from the root, as "weft/..."')
            elif not (root / include).is_file():
                found.append(f"{where}: {include} does not exist")
            elif why := complaint(file, Path(include).relative_to("weft"), layers):
                found.append(f"{where}: may not include {include}: {why}")
    return found


if __name__ == "__main__":
    complaints.run(check, "layers: every include follows a declared edge, Python imports without a cycle")
