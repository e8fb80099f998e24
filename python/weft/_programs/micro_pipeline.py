"""The micro-pipeline pass on programs that people have: collectives overlap the matmuls next to them. C++ decides."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import torch
from torch import fx

from weft._programs.tensor_parallel import updated
from weft._programs.fx_program import FxTranslation

Program = TypeVar("Program", torch.export.ExportedProgram, fx.GraphModule)


def _group_name(group: Any) -> str:
    return group if isinstance(group, str) else group.group_name


def _run(
    graph: fx.Graph, where: str, overlap: str, link: str | None, compute: str | None, groups: Mapping[Any, str] | None
) -> list[Any]:
    translation = FxTranslation(graph, where)
    modes = {_group_name(group): mode for group, mode in (groups or {}).items()}
    decisions = translation.program.micro_pipeline(overlap, link, compute, modes)
    if any(decision.fused for decision in decisions):
        translation.write_back()
        graph.lint()
    return decisions


def micro_pipeline_tp_pass(
    graph: fx.Graph,
    *,
    overlap: str = "auto",
    link: str | None = None,
    compute: str | None = None,
    groups: Mapping[Any, str] | None = None,
) -> None:
    """PyTorch's pass of this name, by Weft: changes the graph of one rank so that collectives overlap the matmuls next to them.

        torch._inductor.config.post_grad_custom_post_pass = weft.micro_pipeline_tp_pass
        torch.compile(model)(x)

    All-gathers with the matmuls of what they gather, matmuls with the reduce-scatter of their sum, and matmuls with its
    all-reduce become operators of Weft, where that pays: see micro_pipeline for the options, which functools.partial gives. The
    graph has functional collectives, PyTorch's DTensor's too, and fake values. Every rank of a group must run the pass on its
    graphs at the same place: the ranks agree on each collective. `with weft.explain() as e:` around the compilation shows every
    decision.
    """
    _run(graph, "micro_pipeline_tp_pass", overlap, link, compute, groups)


def micro_pipeline(
    program: Program,
    *,
    overlap: str = "auto",
    link: str | None = None,
    compute: str | None = None,
    groups: Mapping[Any, str] | None = None,
) -> Program:
    """The program of this rank with its collectives fused with the matmuls next to them; the given one is not changed.

        with weft.explain() as e:
            fused = weft.micro_pipeline(exported_program, link="50us,125MB/s", compute="100Gflop/s,27GB/s,1us")
        print(e)    # all_gather(%all_gather_into_tensor over 0): fused with 2 matmuls, 4 chunks, gains 1.2ms ...

    Takes a torch.export.ExportedProgram or an fx.GraphModule with functional collectives and fake values. `overlap` is "auto",
    where it pays by the rates of `link` and `compute` (or WEFT_LINK and WEFT_COMPUTE, or those measured over the process
    group); "force", wherever possible; or "off". `groups` has another of these for single process groups, by the group or its
    name. Where the process groups exist, their ranks agree on every decision, so that all of them must call this at the same
    place, with the same options.
    """
    options = (overlap, link, compute, groups)
    if isinstance(program, fx.GraphModule):
        module = _copy(program)
        _run(module.graph, "micro_pipeline", *options)
        module.recompile()
        return module
    if isinstance(program, torch.export.ExportedProgram):
        module = _copy(program.graph_module)
        before = _returned(module.graph)
        _run(module.graph, "micro_pipeline", *options)
        module.recompile()
        return updated(program, module, _renamed(program.graph_signature, before, _returned(module.graph)))
    raise TypeError(
        "[micro_pipeline] an ExportedProgram or a GraphModule is required, but got "
        f"{type(program).__qualname__}. Export the model by torch.export.export."
    )


def _copy(module: fx.GraphModule) -> fx.GraphModule:
    """The module with a graph of its own, and the same parameters."""
    result = fx.GraphModule(module, copy.deepcopy(module.graph), type(module).__name__)
    result.meta.update(module.meta)
    return result


def _returned(graph: fx.Graph) -> list[Any]:
    return list(graph.output_node().args[0])


def _renamed(signature: Any, before: list[Any], after: list[Any]) -> Any:
    """The signature with the names of the nodes that are returned now."""
    outputs = list(signature.output_specs)
    for i, (old, new) in enumerate(zip(before, after)):
        if old is not new:
            outputs[i] = dataclasses.replace(outputs[i], arg=dataclasses.replace(outputs[i].arg, name=new.name))
    return dataclasses.replace(copy.deepcopy(signature), output_specs=outputs)
