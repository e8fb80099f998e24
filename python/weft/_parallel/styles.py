"""The styles of parallelize_module, with PyTorch's names and signatures. Each is what a plan file says, as a Python object:
C++ reads that (weft/styles/style_json.h)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from weft import _C

Layouts = _C.Placement | Sequence[_C.Placement | None] | None


def _text(placement: Any) -> str | None:
    """A placement, of Weft or of torch, in Weft's notation."""
    if placement is None:
        return None
    return str(_C.placement(placement))


def _as_list(layouts: Layouts) -> list[_C.Placement | None]:
    if layouts is None:
        return []
    return list(layouts) if isinstance(layouts, Sequence) else [layouts]


def _crossing(given: Any, wanted: Any) -> str | None:
    """`S(1) -> R`: a plain tensor is taken to have the placement `given`, and any tensor is redistributed to `wanted`."""
    given, wanted = _text(given), _text(wanted)
    if wanted is None:
        return given
    return f"{given} -> {wanted}" if given else f"-> {wanted}"


def _crossings(style: str, what: str, given: Layouts, wanted: Layouts) -> list[str | None]:
    given, wanted = _as_list(given), _as_list(wanted)
    if len(given) != len(wanted):
        raise ValueError(
            f"[{style}] {what}_layouts and desired_{what}_layouts must be as many, but got {len(given)} and {len(wanted)}."
        )
    return [_crossing(*pair) for pair in zip(given, wanted)]


class ParallelStyle:
    """How one module is parallel. `options` is what a plan file says of it."""

    def __init__(self, **options: Any) -> None:
        self.options = {name: value for name, value in options.items() if value is not None}

    def _apply(self, module: nn.Module, device_mesh: _C.DeviceMesh) -> nn.Module:
        """Makes one module parallel, as `parallelize_module` does. A subclass may do it in another way:

            class Rows(weft.ParallelStyle):
                def _apply(self, module, device_mesh):
                    module.weight = nn.Parameter(weft.distribute_tensor(module.weight, device_mesh, [weft.Shard(0)]))
                    return module
        """
        from weft._parallel.parallelize import parallelize_module

        return parallelize_module(module, device_mesh, {"": self.options})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ParallelStyle) and self.options == other.options

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.options.items())})"


class _Sharded(ParallelStyle):
    def __init__(self, style, input_layouts, output_layouts, use_local_output, heads, parts):
        super().__init__(
            style=style,
            input=_text(input_layouts),
            output=_text(output_layouts),
            local_output=use_local_output,
            heads=heads,
            parts=parts,
        )


class ColwiseParallel(_Sharded):
    """Linear: every rank has some of the outputs. Embedding: some of the columns.

    `input_layouts` is the placement of a plain input, and `output_layouts` that of the output. `heads` is the number of heads
    in the outputs: a head is never divided between ranks, and fewer heads than ranks are computed on every rank. `parts` is
    the number of layers joined in one weight, as queries, keys and values often are: each is sharded by itself. Parts of
    different sizes are given by their heads: [32, 8, 8].
    """

    def __init__(
        self,
        *,
        input_layouts: _C.Placement | None = None,
        output_layouts: _C.Placement | None = None,
        use_local_output: bool = True,
        heads: int | None = None,
        parts: int | Sequence[int] | None = None,
    ) -> None:
        super().__init__("colwise", input_layouts, output_layouts, use_local_output, heads, parts)


class RowwiseParallel(_Sharded):
    """Linear: every rank has some of the inputs, and what it adds to the outputs is summed up. Embedding: some of the rows.

    Arguments as of ColwiseParallel; `heads` are those that the inputs consist of.
    """

    def __init__(
        self,
        *,
        input_layouts: _C.Placement | None = None,
        output_layouts: _C.Placement | None = None,
        use_local_output: bool = True,
        heads: int | None = None,
    ) -> None:
        super().__init__("rowwise", input_layouts, output_layouts, use_local_output, heads, None)


class SequenceParallel(ParallelStyle):
    """Norms and dropout: parameters are replicated and the sequence is sharded."""

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        super().__init__(style="sequence", dim=sequence_dim, local_output=use_local_output)


class PrepareModuleInput(ParallelStyle):
    """Redistributes the inputs of a module: one placement per input, None for one that keeps its own."""

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: Mapping[str, _C.Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, _C.Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        super().__init__(
            style="input",
            inputs=_crossings("PrepareModuleInput", "input", input_layouts, desired_input_layouts),
            keywords=_keyword_crossings("PrepareModuleInput", input_kwarg_layouts, desired_input_kwarg_layouts),
            local_input=use_local_output,
        )


class PrepareModuleOutput(ParallelStyle):
    """Redistributes the outputs of a module."""

    def __init__(
        self, *, output_layouts: Layouts, desired_output_layouts: Layouts, use_local_output: bool = True
    ) -> None:
        super().__init__(
            style="output",
            outputs=_crossings("PrepareModuleOutput", "output", output_layouts, desired_output_layouts),
            local_output=use_local_output,
        )


class PrepareModuleInputOutput(ParallelStyle):
    """PrepareModuleInput and PrepareModuleOutput in one."""

    def __init__(
        self,
        *,
        input_layouts: Layouts = None,
        desired_input_layouts: Layouts = None,
        input_kwarg_layouts: Mapping[str, _C.Placement] | None = None,
        desired_input_kwarg_layouts: Mapping[str, _C.Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Layouts,
        desired_output_layouts: Layouts,
        use_local_output: bool = True,
    ) -> None:
        name = "PrepareModuleInputOutput"
        super().__init__(
            style="input_output",
            inputs=_crossings(name, "input", input_layouts, desired_input_layouts),
            keywords=_keyword_crossings(name, input_kwarg_layouts, desired_input_kwarg_layouts),
            local_input=use_local_input,
            outputs=_crossings(name, "output", output_layouts, desired_output_layouts),
            local_output=use_local_output,
        )


class ReplicateParallel(ParallelStyle):
    """Parameters are replicated."""

    def __init__(self) -> None:
        super().__init__(style="replicate")


def _keyword_crossings(style, given, wanted):
    given, wanted = dict(given or {}), dict(wanted or {})
    if given.keys() != wanted.keys():
        raise ValueError(
            f"[{style}] input_kwarg_layouts and desired_input_kwarg_layouts must name the same arguments, but got "
            f"{sorted(given)} and {sorted(wanted)}."
        )
    return {name: _crossing(given[name], wanted[name]) for name in given} or None
