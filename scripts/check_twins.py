#!/usr/bin/env python3
"""Checks that no six lines of code stand twice in weft/, tools/ and python/: what is written twice is changed once.

Lines are compared without comments and spaces. Blank lines, includes, imports, lone brackets, heads (`int f(`) and lines of
parameters (`const at::Tensor& x,`) do not count: they are how functions are declared and called. Usage: check_twins.py [root of the tree]
"""

import collections
import re
from pathlib import Path

import complaints

LINES = 6
FOLDERS = ("weft", "tools", "python")
SUFFIXES = (".h", ".cpp", ".cu", ".py")

COMMENT = {".py": re.compile(r"#.*")}
CPP_COMMENT = re.compile(r"//.*")
IMPORT = re.compile(r"#\s*(include|pragma|if|endif|else)\b|(from \S+ )?import ")
# Names, types and separators without any call, assignment or operator.
PARAMETERS = re.compile(r"(?:const )?[\w:<>&*, \[\]]+(?:,|\)(?: const)?(?: override)?[;{]?| const| override)*")
BRACKETS = re.compile(r"[\s(){}\[\];,]*|.*\(")


def code_lines(path):
    """(number, text) of the lines that count."""
    comment = COMMENT.get(path.suffix, CPP_COMMENT)
    is_docstring = False
    for number, line in enumerate(path.read_text().split("\n"), 1):
        quotes = line.count('"""') if path.suffix == ".py" else 0
        was_docstring, is_docstring = is_docstring, is_docstring ^ (quotes % 2 == 1)
        if was_docstring or quotes:
            continue
        text = " ".join(comment.sub("", line).split())
        is_statement = text.startswith(("return", "case ", "break", "continue", "pass", "raise"))
        if BRACKETS.fullmatch(text) or IMPORT.match(text) or (PARAMETERS.fullmatch(text) and not is_statement):
            continue
        yield number, text


def twins(root):
    """Pairs of (path, first line, last line) of the longest runs of equal lines."""
    files = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in SUFFIXES]
    lines = {path: list(code_lines(path)) for path in files}
    places = collections.defaultdict(list)
    for path, of_file in lines.items():
        for i in range(len(of_file) - LINES + 1):
            places[tuple(text for _, text in of_file[i : i + LINES])].append((path, i))
    reported = set()  # starts of runs that belong to a longer one
    for found in places.values():
        first, i = found[0]
        for second, k in found[1:]:
            if (first, i, second, k) in reported or (first == second and k < i + LINES):
                continue
            length = 0
            while i + length < len(lines[first]) and k + length < len(lines[second]):
                if lines[first][i + length][1] != lines[second][k + length][1]:
                    break
                reported.add((first, i + length, second, k + length))
                length += 1
            yield [(path, lines[path][j][0], lines[path][j + length - 1][0]) for path, j in ((first, i), (second, k))]


def check(root):
    """All complaints about the tree, as text."""
    return [
        " and ".join(f"{path.relative_to(root)}:{begin}-{end}" for path, begin, end in pair)
        + f": {LINES} lines or more stand in both places. Write them once"
        for pair in twins(root)
    ]


if __name__ == "__main__":
    complaints.run(check, f"twins: no {LINES} lines of code stand twice")
