#!/usr/bin/env python3
"""Checks that a type's name is defined once: two types of one name in one namespace are one to the linker.

Sources of a layer are compiled in batches, as if they were one file, so that types in their anonymous namespaces meet
each other and those of the namespace around. An alias of the same text may be written again.

Usage: check_types.py [root of the tree]
"""

import re
from collections import defaultdict
from dataclasses import dataclass

import complaints

# Comments, raw strings, strings and letters: what is inside of them is no code.
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
TOKEN = re.compile(
    r"(?P<namespace>\b(?:inline\s+)?namespace\b\s*(?P<names>[\w:]*)\s*\{)"
    r"|(?P<type>\b(?:class|struct|union|enum(?:\s+(?:class|struct))?)\s+(?P<name>\w+)(?:\s+final)?(?:\s*:(?!:)[^;{}()]*)?\s*\{)"
    r"|(?P<alias>\busing\s+(?P<alias_name>\w+)\s*=(?P<alias_text>[^;]*);)"
    r"|(?P<open>\{)|(?P<close>\})"
)


@dataclass(frozen=True)
class Definition:
    namespace: str
    is_anonymous: bool
    name: str
    where: str
    layer: str
    text: str  # of an alias; empty for a type of its own


def blanked(text):
    """The same text, lines kept, without comments and strings."""
    return NO_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def definitions(path, root):
    """The types and aliases that stand in namespaces, not in classes or functions."""
    text = blanked(path.read_text())
    file = path.relative_to(root)
    scopes = []  # a list of names per namespace, None for any other brace
    for match in TOKEN.finditer(text):
        if match["close"]:
            if scopes:
                scopes.pop()
            continue
        if match["namespace"]:
            scopes.append(match["names"].split("::"))
            continue
        name = match["name"] or match["alias_name"]
        if name and None not in scopes:
            names = [part for scope in scopes for part in scope]
            line = text.count("\n", 0, match.start()) + 1
            alias = " ".join((match["alias_text"] or "").split())
            yield Definition(
                "::".join(part for part in names if part), "" in names, name, f"{file}:{line}", file.parts[1], alias
            )
        if not match["alias"]:
            scopes.append(None)


def meet(a, b):
    """Whether two definitions of one name are ever seen by the same translation unit, or by the linker."""
    if a.layer != b.layer and (a.is_anonymous or b.is_anonymous):
        return False
    return not (a.text and a.text == b.text)


def check(root):
    """All complaints about the tree, as text."""
    by_name = defaultdict(list)
    for path in sorted((root / "weft").rglob("*")):
        if path.suffix in (".h", ".cpp"):
            for definition in definitions(path, root):
                by_name[definition.namespace, definition.name].append(definition)
    found = []
    for (namespace, name), all_of_name in sorted(by_name.items()):
        for i, later in enumerate(all_of_name):
            earlier = next((each for each in all_of_name[:i] if meet(each, later)), None)
            if earlier:
                found.append(f"{later.where}: {namespace}::{name} is also defined in {earlier.where}: name one by what it is")
    return found


if __name__ == "__main__":
    complaints.run(check, "types: every name is defined once")
