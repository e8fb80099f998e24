#!/usr/bin/env python3
"""Checks that files stay small: past 600 lines a file is two concepts. Names those above what is recommended.

Usage: check_sizes.py [root of the tree]
"""

import sys
from pathlib import Path

FOLDERS = ("weft", "tools", "python", "tests", "bench", "examples", "fuzz", "scripts")
RECOMMENDED = {".h": 150, ".cpp": 400, ".py": 400}
LIMIT = 600


def check(root):
    """(notes, complaints) about the tree, as text."""
    notes, found = [], []
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in RECOMMENDED:
                continue
            lines = path.read_text().count("\n")
            where = f"{path.relative_to(root)}: {lines} lines"
            if lines > LIMIT:
                found.append(f"{where}, the limit is {LIMIT}")
            elif lines > RECOMMENDED[path.suffix]:
                notes.append(f"{where}, {RECOMMENDED[path.suffix]} are recommended (a note, no error)")
    return notes, found


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    notes, found = check(root)
    print("\n".join(notes + (found or [f"sizes: no file over {LIMIT} lines"])))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
