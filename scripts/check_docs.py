#!/usr/bin/env python3
"""Checks that documents name what exists: files, layers, folders of the Python package, and in the walks of docs/design.md and
in CONTRIBUTING.md functions and types. Usage: check_docs.py [root of the tree]
"""

import re
from pathlib import Path

import complaints
from check_layers import declared_layers

PATH = r"(?:bench|cmake|docs|examples|python|scripts|tests|tools|weft)/[\w./]*\w"
SOURCES = (".h", ".cpp", ".cu", ".py", ".cmake")


def texts(paths):
    return "\n".join(path.read_text() for path in sorted(paths) if path.suffix in SOURCES)


def text_of(path):
    """Of a file with its header or source, or of all files in a folder."""
    return texts(path.rglob("*") if path.is_dir() else path.parent.glob(f"{path.stem}.*"))


def functions_in(text):
    """The names of the functions that a text declares or calls."""
    return set(re.findall(r"\b(\w+)\(", text))


def base_name(function):
    return function.split("::")[-1]


def check_rows(what, rows, exist):
    found = [f"docs/design.md: has no row for the {what} {name}" for name in sorted(exist - rows)]
    return found + [f"docs/design.md: has a row for {name}, which is no {what}" for name in sorted(rows - exist)]


def check_tables(root, design):
    layers = set(re.findall(r"^\| `weft/([\w/]+)` \|", design, re.MULTILINE))
    folders = set(re.findall(r"^\| `(_\w+)` \|", design, re.MULTILINE))
    package = {path.parent.name for path in (root / "python/weft").glob("*/*.py")}
    return [
        *check_rows("layer", layers, set(declared_layers((root / "CMakeLists.txt").read_text()))),
        *check_rows("folder of python/weft", folders, package),
    ]


def check_paths(root, document):
    text = document.read_text()
    linked = [document.parent / path for path in re.findall(r"\]\(([\w./-]+)\)", text)]
    named = [root / path for path in re.findall(rf"`({PATH})/?`", text)]
    missing = [path for path in linked + named if not path.exists()]
    return [f"{document.relative_to(root)}: {path.resolve().relative_to(root)} does not exist" for path in missing]


def check_walks(root, walks):
    sources = text_of(root / "weft") + text_of(root / "tools")
    known = functions_in(sources)
    types = set(re.findall(r"\b(?:class|struct) (\w+)", sources))
    functions = re.findall(r"`((?:\w+::)?\w+)\(\)`", walks)
    pairs = re.findall(rf"`((?:\w+::)?\w+)\(\)`\s+\(`({PATH})`", walks)
    named_types = {name.split("::")[0] for name in re.findall(r"`([A-Z]\w+[a-z]\w+)(?:`|::)", walks)}
    return [
        *(f"there is no function {name}()" for name in functions if base_name(name) not in known),
        *(f"{name}() is not in {path}" for name, path in pairs if base_name(name) not in functions_in(text_of(root / path))),
        *(f"there is no type {name}" for name in sorted(named_types - types)),
    ]


def check_how_tos(root, how_tos):
    """Files that are named without their folder, behind one with it, and functions."""
    folders = [root / name for name in ("weft", "python", "tests", "tools", "cmake", "scripts")]
    names = {path.name for folder in folders for path in folder.rglob("*")}
    words = set(re.findall(r"\w+", "\n".join(map(text_of, folders))))
    files = re.findall(r"`(\w+\.(?:h|cpp|py|pyi|cmake))`", how_tos)
    functions = re.findall(r"`([a-z]+_\w+[a-z])(?:\(\w*\))?`", how_tos)
    return [
        *(f"there is no file {name}" for name in files if name not in names),
        *(f"there is no function {name}" for name in functions if name not in words),
    ]


def check(root):
    """All complaints about the tree, as text."""
    root = root.resolve()
    design = (root / "docs/design.md").read_text()
    walks = design[design.index("\n## Walks") :].split("\n## ")[1]
    documents = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]
    return [
        *check_tables(root, design),
        *(complaint for document in documents for complaint in check_paths(root, document)),
        *(f"docs/design.md, walks: {complaint}" for complaint in check_walks(root, walks)),
        *(f"CONTRIBUTING.md: {complaint}" for complaint in check_how_tos(root, (root / "CONTRIBUTING.md").read_text())),
    ]


if __name__ == "__main__":
    complaints.run(check, "docs: files, layers, functions and types that are named exist")
