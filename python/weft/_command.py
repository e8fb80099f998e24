"""The command weft, which is a program of its own inside the package, but for what only Python can read."""

import os
import sys
from pathlib import Path


def _is_of_python(arguments):
    formats = [value for option, value in zip(arguments, arguments[1:]) if option == "--format"]
    return arguments[:1] == ["checkpoint"] and ("dcp" in formats or "--format=dcp" in arguments)


def main():
    arguments = sys.argv[1:]
    if _is_of_python(arguments):
        from weft._checkpoint.dcp import main as convert

        try:
            return convert(arguments[1:])
        except (ValueError, TypeError, OSError) as error:
            sys.exit(f"weft: {error}")
    program = Path(__file__).parent / "bin" / "weft"
    if not program.exists():
        sys.exit("weft: this wheel was built without the command. Install libcli11-dev and build it again.")
    os.execv(program, ["weft", *arguments])


if __name__ == "__main__":
    main()
