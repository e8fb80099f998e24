#!/usr/bin/env python3
"""Checks that every include inside weft/ follows an edge declared by weft_layer(...) in CMakeLists.txt.

cmake/WeftLayer.cmake says what the declarations mean. Usage: check_layers.py [root of the tree]
"""

import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<(weft/[^>]+)>)', re.MULTILINE)
DECLARATION = re.compile(r"^[ \t]*weft_layer\(([^)]*)\)", re.MULTILINE)


@dataclass
class Layer:
    name: str
    depends: list = field(default_factory=list)  # "core", or "redistribute/plan" for one file or folder of a layer
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


def is_part(path, stem):
    """Whether "execute.h", "execute.cpp" or "execute/x.h" is part of "execute". Paths start below the layer's folder."""
    return path.with_suffix("").as_posix() == stem or path.as_posix().startswith(stem + "/")


def is_covered(path, edge):
    """Whether weft/<path> is what the edge "core" or "redistribute/plan" points to."""
    layer, _, stem = edge.partition("/")
    return path.parts[0] == layer and (not stem or is_part(path.relative_to(layer), stem))


def complaint(file, target, layers):
    """Why weft/<file> may not include weft/<target>, or None. Both paths start below weft/."""
    if len(target.parts) == 1:
        return "the umbrella header is for users, include what is needed"
    layer = layers[file.parts[0]]
    own = file.relative_to(layer.name)
    also = {stem for stem, _ in layer.also}
    if target.parts[0] == layer.name:
        part = next((stem for stem in also if is_part(target.relative_to(layer.name), stem)), None)
        if part and not any(is_part(own, stem) for stem in also):
            return f"only {', '.join(sorted(also))} may, since {part} has edges that the rest of {layer.name} has not"
        return None
    edges = layer.depends + [other for stem, other in layer.also if is_part(own, stem)]
    if any(is_covered(target, edge) for edge in edges):
        return None
    return f"{layer.name} declares {', '.join(edges) or 'no edges'}"


def check(root):
    """All complaints about the tree, as text."""
    layers = declared_layers((root / "CMakeLists.txt").read_text())
    found = []
    for folder in sorted(p.name for p in (root / "weft").iterdir() if p.is_dir()):
        if folder not in layers:
            found.append(f"weft/{folder}: no weft_layer({folder} ...) in CMakeLists.txt")
    for path in sorted((root / "weft").rglob("*")):
        file = path.relative_to(root / "weft")
        if path.suffix not in (".h", ".cpp") or len(file.parts) == 1 or file.parts[0] not in layers:
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


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    found = check(root)
    print("\n".join(found) if found else "layers: every include follows a declared edge")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
