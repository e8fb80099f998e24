#!/usr/bin/env python3
"""Checks that tests mirror sources: weft/<layer>/<x>.cpp has tests/<layer>/<x>_test.cpp, and a test has its source.

Usage: check_mirror.py [root of the tree]
"""

import fnmatch
from pathlib import Path

import complaints

# Sources without a test of their own, each with the reason.
UNTESTED = {
    "weft/comm/world/*_absent.cpp": "stands in for a backend that is not built, and only throws",
    "weft/tensor/random/random_cuda_absent.cpp": "stands in for a kernel that is not built, and only throws",
}

# Folders of tests/ that mirror no layer, each with the reason.
NOT_MIRRORED = {
    "faults": "runs in which a rank fails",
    "integration": "complete programs over several layers",
    "package": "a user's project against the installed library",
    "scripts": "tests of scripts/, in Python",
    "support": "what tests share",
}


def check(root):
    """All complaints about the tree, as text."""
    found = []
    for path in sorted((root / "weft").rglob("*.cpp")):
        source = path.relative_to(root)
        test = Path("tests", *source.parts[1:-1], f"{source.stem}_test.cpp")
        excused = any(fnmatch.fnmatchcase(source.as_posix(), pattern) for pattern in UNTESTED)
        if not excused and not (root / test).is_file():
            found.append(f"{source}: has no test, expected {test}")
    for path in sorted((root / "tests").rglob("*_test.cpp")):
        test = path.relative_to(root)
        if test.parts[1] in NOT_MIRRORED:
            continue
        source = Path("weft", *test.parts[1:-1], test.name.removesuffix("_test.cpp"))
        if not any((root / source).with_suffix(suffix).is_file() for suffix in (".cpp", ".h")):
            found.append(f"{test}: tests nothing, expected {source}.cpp or {source}.h")
    return found


if __name__ == "__main__":
    complaints.run(check, "mirror: every source has its test and every test its source")
