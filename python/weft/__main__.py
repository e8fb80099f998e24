"""python -m weft script.py [arguments]: runs a program written for torch.distributed.tensor on Weft, unchanged."""

import runpy
import sys
from pathlib import Path

import weft


def main() -> None:
    arguments = sys.argv[1:]
    module = arguments[:1] == ["-m"]
    if len(arguments) < 1 + module or (arguments[0].startswith("-") and not module):
        sys.exit("usage: python -m weft script.py [arguments]\n       python -m weft -m module [arguments]")
    weft.install()
    if module:
        sys.argv = arguments[1:]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
