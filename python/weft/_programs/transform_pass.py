"""tensor_parallel_transformation as a pass of an fx pass list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.fx.passes.infra.pass_base import PassBase, PassResult
from torch.utils import _pytree as pytree

from weft._programs.tensor_parallel import tensor_parallel_transformation


class TensorParallelTransformPass(PassBase):
    """Makes a graph module of an exported program parallel: tensor_parallel_transformation as a pass of an fx pass list.

        parallel = weft.TensorParallelTransformPass(
            rank, world_size, "cpu", exported_program.state_dict, exported_program.graph_signature, plan)
        for each in [*passes, parallel]:
            graph_module = each(graph_module).graph_module
        parallel.state_dict, parallel.graph_signature    # of this rank, for the graph module that it gave

    The graph module has what the signature says as inputs, weights first; it is not changed, and neither is `state_dict`.
    `constants` are those of the exported program, if it has any.
    """

    def __init__(
        self,
        rank: int,
        world_size: int,
        device_type: str,
        state_dict: Mapping[str, torch.Tensor],
        graph_signature: torch.export.ExportGraphSignature,
        parallel_strategies: Mapping[str, Any],
        *,
        constants: Mapping[str, Any] | None = None,
        broadcast_weights: bool = False,
    ):
        super().__init__()
        self.state_dict = dict(state_dict)
        self.graph_signature = graph_signature
        self.constants = dict(constants or {})
        self._arguments = (rank, world_size, device_type, parallel_strategies)
        self._broadcast_weights = broadcast_weights

    def call(self, graph_module: fx.GraphModule) -> PassResult:
        own = tensor_parallel_transformation(
            self._program(graph_module), *self._arguments, broadcast_weights=self._broadcast_weights
        )
        self.state_dict, self.graph_signature, self.constants = own.state_dict, own.graph_signature, own.constants
        return PassResult(own.graph_module, True)

    def _program(self, module: fx.GraphModule) -> torch.export.ExportedProgram:
        signature = self.graph_signature
        given = pytree.tree_structure(((0,) * len(signature.user_inputs), {}))
        returned = pytree.tree_structure((0,) * len(signature.user_outputs))
        return torch.export.ExportedProgram(
            root=module,
            graph=module.graph,
            graph_signature=signature,
            state_dict=self.state_dict,
            range_constraints=_ranges(module.graph),
            module_call_graph=[ModuleCallEntry("", ModuleCallSignature([], [], given, returned))],
            constants=self.constants,
        )


def _ranges(graph: fx.Graph) -> dict[Any, Any]:
    """The range of every symbol in the sizes of the graph's inputs."""
    ranges = {}
    for node in graph.nodes:
        fake = node.meta.get("val") if node.op == "placeholder" else None
        for size in fake.shape if isinstance(fake, torch.Tensor) else ():
            if isinstance(size, torch.SymInt):
                known = size.node.shape_env.var_to_range
                ranges.update({symbol: known[symbol] for symbol in size.node.expr.free_symbols if symbol in known})
    return ranges
