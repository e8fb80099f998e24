"""The command weft, which is a program of its own inside the package."""

import os
import sys
from pathlib import Path


def main():
    program = Path(__file__).parent / "bin" / "weft"
    if not program.exists():
        sys.exit("weft: this wheel was built without the command. Install libcli11-dev and build it again.")
    os.execv(program, ["weft", *sys.argv[1:]])
