#!/usr/bin/env python3
"""Checks that prose uses one word per concept: comments, docstrings, messages and Markdown, but not code.

Prose is what follows // or # in a source, a docstring, a string literal of several words, and a Markdown page without its
code blocks. Words in `backticks` are names of code and may be anything. Tests quote messages, so that only their comments and
docstrings are checked. Usage: check_words.py [root of the tree]
"""

import fnmatch
import io
import re
import tokenize

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


def markdown_prose(text, with_messages):
    yield 1, FENCED.sub(lambda fence: "\n" * fence[0].count("\n"), text)


def script_prose(text, with_messages):
    """Of Makefiles, CMake and shell: comments and messages."""
    for line, content in enumerate(text.split("\n"), 1):
        before, _, comment = content.partition("#")
        yield line, comment
        yield line, " ".join(filter(is_message, re.findall(r'"[^"]*"', before)))


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
        for first, prose in PROSE[path.suffix](path.read_text(), with_messages=not file.startswith("tests/")):
            for line, said in enumerate(CODE.sub("", prose).split("\n"), first):
                for pattern, instead in AVOIDED:
                    found += [f'{file}:{line}: "{match[0]}": say {instead}' for match in pattern.finditer(said)]
    return found


if __name__ == "__main__":
    complaints.run(check, "words: one word per concept")
