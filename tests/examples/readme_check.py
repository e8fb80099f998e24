"""Checks that the README's example is examples/quickstart.cpp and that its output is what the program prints.

usage: readme_check.py PROGRAM
"""

import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
readme = (root / "README.md").read_text()
source = (root / "examples" / "quickstart.cpp").read_text()


def block(language):
    found = re.search(rf"^```{language}\n(.*?)^```$", readme, re.M | re.S)
    sys.exit(f"README.md has no ```{language} block") if not found else None
    return found.group(1)


def without_trailing_spaces(text):
    return [line.rstrip() for line in text.strip().splitlines()]


if block("cpp").strip() not in source:
    sys.exit("the example in README.md is not part of examples/quickstart.cpp")
printed = subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True, timeout=120).stdout
if without_trailing_spaces(printed) != without_trailing_spaces(block("text")):
    sys.exit(f"README.md shows another output than the program prints:\n{printed}")
