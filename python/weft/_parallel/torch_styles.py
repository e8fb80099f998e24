"""PyTorch's styles as Weft's."""

from __future__ import annotations

from typing import Any

from weft._parallel import styles

_MODULE = "torch.distributed.tensor.parallel.style"


def _first(layouts: Any) -> Any:
    return layouts[0] if isinstance(layouts, (tuple, list)) else layouts


def _input_options(style):
    return {
        "input_layouts": style.input_layouts,
        "desired_input_layouts": style.desired_input_layouts,
        "input_kwarg_layouts": style.input_kwarg_layouts,
        "desired_input_kwarg_layouts": style.desired_input_kwarg_layouts,
    }


def _output_options(style):
    return {
        "output_layouts": style.output_layouts,
        "desired_output_layouts": style.desired_output_layouts,
        "use_local_output": style.use_local_output,
    }


def style_from_torch(style: Any) -> styles.ParallelStyle | None:
    """Weft's form of one of PyTorch's styles; None for any other object, one of a class derived from them too."""
    name = type(style).__name__ if type(style).__module__ == _MODULE else ""
    if name in ("ColwiseParallel", "RowwiseParallel"):
        return getattr(styles, name)(
            input_layouts=_first(style.input_layouts),
            output_layouts=_first(style.output_layouts),
            use_local_output=style.use_local_output,
        )
    if name == "SequenceParallel":
        return styles.SequenceParallel(
            sequence_dim=_first(style.sequence_sharding).dim, use_local_output=style.use_local_output
        )
    if name == "PrepareModuleInput":
        return styles.PrepareModuleInput(**_input_options(style), use_local_output=style.use_local_output)
    if name == "PrepareModuleOutput":
        return styles.PrepareModuleOutput(**_output_options(style))
    if name == "PrepareModuleInputOutput":
        given, made = style.prepare_module_input, style.prepare_module_output
        return styles.PrepareModuleInputOutput(
            **_input_options(given), use_local_input=given.use_local_output, **_output_options(made)
        )
    return None
