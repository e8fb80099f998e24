"""visualize_sharding."""

from __future__ import annotations

import sys

from torch import Tensor

from weft import _C


class ShardingPicture:
    """Which ranks hold which elements of a tensor: text in a terminal, an image in a notebook."""

    def __init__(self, spec: _C.TensorSpec):
        self.spec = spec

    def _repr_svg_(self) -> str:
        return self.spec.draw_svg()

    def __repr__(self):
        return self.spec.draw().rstrip("\n")


def _in_notebook():
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def visualize_sharding(tensor: Tensor | _C.TensorSpec) -> ShardingPicture:
    """Draws which ranks hold which elements of a distributed tensor, or of a TensorSpec. Communicates nothing.

    In a terminal the drawing is printed, in a notebook it is shown as an image; it is returned as well.
    """
    picture = ShardingPicture(tensor if isinstance(tensor, _C.TensorSpec) else _C.spec(tensor))
    if _in_notebook():
        from IPython.display import display

        display(picture)
    else:
        print(picture)
    return picture
