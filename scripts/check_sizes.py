#!/usr/bin/env python3
"""Checks that files stay small: past 600 lines a file is two concepts. Names those above what is recommended. And that
folders stay small: past 45 files a folder is two concepts. Folders of tests mirror those of the sources and may hold more.

Usage: check_sizes.py [root of the tree]
"""

import collections
import sys
from pathlib import Path

FOLDERS = ("weft", "tools", "python", "tests", "bench", "examples", "fuzz", "scripts")
RECOMMENDED = {".h": 150, ".cpp": 400, ".py": 400}
LIMIT = 600
MOST_FILES = 45


def check(root):
    """(notes, complaints) about the tree, as text."""
    notes, found = [], []
    for folder in FOLDERS:
        files_in = collections.Counter()
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in RECOMMENDED:
                continue
            files_in[path.parent] += 1
            lines = path.read_text().count("\n")
            where = f"{path.relative_to(root)}: {lines} lines"
            if lines > LIMIT:
                found.append(f"{where}, the limit is {LIMIT}")
            elif lines > RECOMMENDED[path.suffix]:
                notes.append(f"{where}, {RECOMMENDED[path.suffix]} are recommended (a note, no error)")
        if folder != "tests":
            found += [
                f"{path.relative_to(root)}: {count} source files, the limit is {MOST_FILES}. Divide the folder by concept"
                for path, count in files_in.items()
                if count > MOST_FILES
            ]
    return notes, found


def main():
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    notes, found = check(root)
    print("\n".join(notes + (found or [f"sizes: no file over {LIMIT} lines, no folder over {MOST_FILES} files"])))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
