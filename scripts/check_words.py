#!/usr/bin/env python3
"""Checks that prose uses one word per concept: comments, docstrings, messages and Markdown. Identifiers are checked for a few
of these words.

Prose is what follows // or # in a source, a docstring, a string literal of several words, and a Markdown page without its
code blocks. Words in `backticks` are names of code and may be anything. Tests quote messages, so that only their comments and
docstrings are checked, and their names are sentences. Usage: check_words.py [root of the tree]
"""

import fnmatch
import io
import re
import tokenize
from pathlib import Path

import complaints

# (pattern of words to avoid, what to say instead)
WORDS = [
    (r"whole", "global (tensor, shape, index), full or replicated"),
    (r"cut|cuts|cutting|uncut", "shard, divide or slice"),
    (r"pieces?", "chunk (on its way) or shard (of a rank)"),
    (r"nobody|somebody|everybody|anybody", "rank, member or caller"),
    (r"addends?", "term"),
    (r"beside", "overlap (communication with compute), next to or compared with"),
    (r"reckon|reckons|reckoned|reckoning", "compute, count or estimate"),
    (r"lie|lies|lying", "has the layout, is stored or is at"),
    (r"bring|brings|bringing|brought", "redistribute, gather, move or load"),
    (r"(?:sends?|sent|comes?|came) home", "redistribute"),
    (r"(?:rank|member)(?:'s|s') (?:own )?(?:parts?|shares?)", "local tensor or shard"),
    (r"(?:its|their|local) (?:own )?(?:parts?|shares?)(?= (?:of|to|is|are|has|alone)\b|[.,;:)])", "local tensor or shard"),
    (r"(?:parts|shares) of (?:all|the|other|several) (?:ranks|members)", "local tensors or shards"),
    (r"overlap of (?:the |their |two )?(?:runs|ranges|indices)", "intersection"),
]

# Words of identifiers: first_piece and FirstPiece have "piece".
IN_IDENTIFIERS = {
    **dict.fromkeys(["whole"], "global, full, all or unsharded"),
    **dict.fromkeys(["piece", "pieces"], "chunk, shard, or what it is: range, block"),
    **dict.fromkeys(["addend", "addends"], "term"),
    **dict.fromkeys(["cut", "cuts"], "shard, divide or slice"),
    **dict.fromkeys(["nobody", "somebody", "everybody", "anybody"], "rank, member or caller"),
    **dict.fromkeys(["beside"], "next to"),
}
# Identifiers that are not checked: of the reader and writer of checkpoints.
IDENTIFIERS_EXCEPT = ["weft/checkpoint/*", "whole_block", "*_whole_layers"]

# Folders and files that are checked, and what in them is not: generated files, golden files, inputs of the fuzzers.
CHECKED = [
    "README.md",
    "CONTRIBUTING.md",
    "Makefile",
    "CMakeLists.txt",
    ".ci",
    "bench",
    "cmake",
    "docs",
    "examples",
    "fuzz",
    "python",
    "scripts",
    "tests",
    "tools",
    "weft",
]
EXCEPT = [
    "docs/op_db.md",
    "docs/rules.md",
    "fuzz/corpus/*",
    "tests/*/golden/*",
    "scripts/check_words.py",
    "tests/scripts/check_words_test.py",
]

# A comment, or a string literal: raw (its delimiter is group 1), ordinary, or of one letter.
CPP = re.compile(r'//[^\n]*|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
DOCSTRING = re.compile(r'[a-zA-Z]*"""')
PLACEHOLDER = re.compile(r"\{[^{}]*\}")
CODE = re.compile(r"`[^`\n]*`")
FENCED = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
# Neither a member of an object (rule.whole) nor something called, assigned or qualified (cut(x), whole={a}, whole::x).
AVOIDED = [
    (re.compile(rf"(?<![\w.>])(?:{pattern})(?![\w(=]|::)", re.IGNORECASE), instead) for pattern, instead in WORDS
]


def is_message(literal):
    """Whether a string literal is a text for people: several words, unlike a key, a path or a shape."""
    return len(re.findall(r"\b[a-z]{2,}\b", literal)) >= 3


def cpp_prose(text, with_messages):
    for match in CPP.finditer(text):
        if match[0].startswith("//") or (with_messages and is_message(match[0])):
            yield text.count("\n", 0, match.start()) + 1, match[0]


def python_prose(text, with_messages):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or DOCSTRING.match(token.string):
            yield token.start[0], token.string
        elif with_messages and is_message(token.string):
            yield token.start[0], PLACEHOLDER.sub("", token.string)


def cpp_code(text):
    without_prose = CPP.sub(lambda match: "\n" * match[0].count("\n"), text)
    for match in IDENTIFIER.finditer(without_prose):
        yield without_prose.count("\n", 0, match.start()) + 1, match[0]


def python_code(text):
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            yield token.start[0], token.string


def names_to_avoid(file, text):
    code = CODE_OF.get(Path(file).suffix)
    if code is None or any(fnmatch.fnmatchcase(file, pattern) for pattern in IDENTIFIERS_EXCEPT):
        return
    for line, name in code(text):
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in IDENTIFIERS_EXCEPT):
            continue
        for word in re.findall("[A-Z]?[a-z]+|[A-Z]+", name):
            if instead := IN_IDENTIFIERS.get(word.lower()):
                yield f'{file}:{line}: "{name}": say {instead}'


def markdown_prose(text, with_messages):
    yield 1, FENCED.sub(lambda fence: "\n" * fence[0].count("\n"), text)


def script_prose(text, with_messages):
    """Of Makefiles, CMake and shell: comments and messages."""
    for line, content in enumerate(text.split("\n"), 1):
        before, _, comment = content.partition("#")
        yield line, comment
        yield line, " ".join(filter(is_message, re.findall(r'"[^"]*"', before)))


CODE_OF = {".h": cpp_code, ".cpp": cpp_code, ".cu": cpp_code, ".py": python_code, ".pyi": python_code}
PROSE = {".h": cpp_prose, ".cpp": cpp_prose, ".cu": cpp_prose, ".py": python_prose, ".pyi": python_prose, ".md": markdown_prose}
PROSE |= {suffix: script_prose for suffix in (".cmake", ".txt", "")}


def check(root):
    """All complaints about the tree, as text."""
    found = []
    for path in [path for name in CHECKED for path in [root / name, *sorted((root / name).rglob("*"))]]:
        file = path.relative_to(root).as_posix()
        is_excepted = any(fnmatch.fnmatchcase(file, pattern) for pattern in EXCEPT)
        if is_excepted or not path.is_file() or path.suffix not in PROSE:
            continue
        text = path.read_text()
        if not file.startswith("tests/"):
            found += names_to_avoid(file, text)
        for first, prose in PROSE[path.suffix](text, with_messages=not file.startswith("tests/")):
            for line, said in enumerate(CODE.sub("", prose).split("\n"), first):
                for pattern, instead in AVOIDED:
                    found += [f'{file}:{line}: "{match[0]}": say {instead}' for match in pattern.finditer(said)]
    return found


if __name__ == "__main__":
    complaints.run(check, "words: one word per concept")
