"""Compares compiled functions of distributed tensors with eager mode: values, layouts, and collectives."""

from collections import Counter

import torch
import weft
from torch._dynamo.backends.common import aot_autograd
from weft import _C, _groups


def local(tensor):
    return tensor.to_local() if weft.is_dtensor(tensor) else tensor


def bytes_of(node):
    return node.meta["val"].numel() * node.meta["val"].element_size()


COLLECTIVES = {
    "all_reduce": "all_reduce",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "all_to_all_single": "all_to_all",
}
# What a rank of two receives by the call of a node.
RECEIVED_BYTES = {
    "all_reduce": lambda node: bytes_of(node.args[0]),
    "all_gather_into_tensor": lambda node: bytes_of(node.args[0]),
    "reduce_scatter_tensor": lambda node: bytes_of(node.args[0]) // 2,
    "all_to_all_single": lambda node: bytes_of(node) // 2,
}


class Graphs:
    """A backend that runs what AOTAutograd records, and keeps it."""

    def __init__(self):
        self.graphs = []
        self.backend = aot_autograd(fw_compiler=self.keep, bw_compiler=self.keep)

    def keep(self, graph_module, inputs):
        self.graphs.append(graph_module.graph)
        return graph_module

    def nodes(self):
        return [node for graph in self.graphs for node in graph.nodes]

    def count(self, op):
        return sum(node.target is op for node in self.nodes())

    def collectives(self):
        """Of each collective the number of calls and the bytes that a rank of two receives."""
        found = Counter(), Counter()
        for node in self.nodes():
            name = getattr(node.target, "__name__", "").split(".")[0]
            if name in RECEIVED_BYTES:
                found[0][COLLECTIVES[name]] += 1
                found[1][COLLECTIVES[name]] += RECEIVED_BYTES[name](node)
        return found


def eager_collectives(run):
    """Runs a function; returns its result and its collectives, as above."""
    counter = _C.CommCounter()
    counter.attach(_groups.current_world())
    try:
        result = run()
    finally:
        counter.detach()
    found = Counter(), Counter()
    for row in counter.rows():
        found[0][row.collective] += row.calls
        found[1][row.collective] += row.bytes
    return result, found


def step(function, inputs, parameters=()):
    """The results of a function, and the gradients of its inputs and of parameters, which a loss of all results has. Those
    without a gradient have None."""
    for parameter in parameters:
        parameter.grad = None
    inputs = [x.clone().detach().requires_grad_(x.is_floating_point()) for x in inputs]
    results = function(*inputs)
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    loss = sum((y.full_tensor() if weft.is_dtensor(y) else y).square().sum() for y in results if y.requires_grad)
    if isinstance(loss, torch.Tensor):
        loss.backward()
    return [*(y.detach() for y in results), *(x.grad for x in (*inputs, *parameters))]


def assert_same(got, want, tolerance=0.0):
    """Tensors, or None, equal within a tolerance: bit for bit, if it is zero. Nan equals nan."""
    for a, b in zip(got, want, strict=True):
        assert (a is None) == (b is None)
        if a is None:
            continue
        assert weft.is_dtensor(a) == weft.is_dtensor(b)
        assert not weft.is_dtensor(a) or _C.spec(a) == _C.spec(b)
        torch.testing.assert_close(local(a), local(b), rtol=tolerance, atol=tolerance, equal_nan=True)


def assert_compiles_as_eager(function, inputs, parameters=(), backends=("eager", "graphs"), counts_collectives=True):
    """The compiled function gives what it gives in eager mode, twice: bit for bit unless the backend is Inductor. The backend
    "graphs" is AOTAutograd's, whose graphs have the collectives of eager mode; those of the hooks of parameters, which run
    after them, count too. Returns these graphs."""
    want, sent = eager_collectives(lambda: step(function, inputs, parameters))
    graphs = Graphs()
    for backend in backends:
        torch._dynamo.reset()
        compiled = torch.compile(function, backend=graphs.backend if backend == "graphs" else backend, fullgraph=True)
        for _ in range(2):
            got, left = eager_collectives(lambda: step(compiled, inputs, parameters))
            assert_same(got, want, 1e-5 if backend == "inductor" else 0.0)
            if counts_collectives and backend != "inductor":
                recorded = graphs.collectives() if backend == "graphs" else (Counter(), Counter())
                made = tuple(a + b for a, b in zip(recorded, left, strict=True))
                assert made == sent, f"{backend}: {made} instead of {sent}"
    return graphs
