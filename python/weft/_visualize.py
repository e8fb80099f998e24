"""visualize_sharding."""

from __future__ import annotations

import importlib.util
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


def _print(picture, header, use_rich):
    if use_rich and importlib.util.find_spec("rich") is not None:
        from rich import box, print as rich_print
        from rich.panel import Panel

        rich_print(Panel.fit(str(picture), title=header or None, box=box.SQUARE))
    else:
        print(f"{header}\n{picture}" if header else picture)


def _is_first_rank(mesh):
    return mesh.get_coordinate() is not None and not any(mesh.get_coordinate())


def visualize_sharding(dtensor: Tensor | _C.TensorSpec, header: str = "", use_rich: bool = False) -> ShardingPicture:
    """Draws which ranks hold which elements of a distributed tensor, or of a TensorSpec. Communicates nothing.

    In a terminal the first rank of the mesh prints the drawing, under the header; in a notebook it is shown as an image. It
    is returned as well, on every rank. With use_rich it is printed by the package rich where that is installed.
    """
    is_spec = isinstance(dtensor, _C.TensorSpec)
    picture = ShardingPicture(dtensor if is_spec else _C.spec(dtensor))
    if _in_notebook():
        from IPython.display import display

        display(picture)
    elif is_spec or _is_first_rank(_C.device_mesh(dtensor)):
        _print(picture, header, use_rich)
    return picture
