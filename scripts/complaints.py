"""What the checks of a tree share: they are run with the root of the tree, print their complaints, and fail if there are any."""

import sys
from pathlib import Path


def run(check, all_well):
    """Ends the program. check(root) gives the complaints as text; all_well is printed if there are none."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent)
    found = check(root)
    print("\n".join(found) if found else all_well)
    sys.exit(1 if found else 0)
