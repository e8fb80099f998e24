"""make_fx of functions of distributed tensors: a graph of this rank's local tensors, with functional collectives.

The graph takes local tensors where the function took distributed ones, and returns local ones; its `weft_layouts` says of what.
Whatever the function does is in it: forward, backward, the reduction of gradients, an optimizer's writes to parameters.
"""

import functools
from typing import NamedTuple

from torch.utils import _pytree

from weft import _C
from weft._imports import when_imported


class Layouts(NamedTuple):
    """What the inputs and outputs of a rank's graph are local tensors of: a spec for each leaf, None of what is plain."""

    inputs: list
    outputs: list


def spec_of(value):
    return _C.spec(value) if _C.is_dtensor(value) else None


def local_value(value):
    """The local tensor of a distributed tensor, with no way for gradients; any other value as it is."""
    return _C.traced_parts(value)[0] if _C.is_dtensor(value) else value


def _on_local_tensors(function, args, layouts):
    """The function with local tensors in place of the distributed ones in `args`. Notes its layouts when it is called."""
    leaves, structure = _pytree.tree_flatten(args)
    kinds = [(*_C.traced_parts(t)[1:], t.requires_grad) if _C.is_dtensor(t) else None for t in leaves]

    def wrapped(value, kind):
        if kind is None:
            return value
        spec, is_parameter, requires_grad = kind
        tensor = _C.wrap_local_tensor(value, spec, is_parameter)
        if requires_grad:
            _C.keep_gradient_layout(tensor.requires_grad_())
        return tensor

    def on_locals(*args):
        values = [wrapped(value, kind) for value, kind in zip(_pytree.tree_leaves(args), kinds)]
        result = function(*_pytree.tree_unflatten(values, structure))
        layouts.outputs[:] = map(spec_of, _pytree.tree_leaves(result))
        return _pytree.tree_map(local_value, result)

    layouts.inputs[:] = map(spec_of, leaves)
    return on_locals


def _trace_local_tensors(proxy_tensor):
    tracer = proxy_tensor._MakefxTracer
    trace_of_torch = tracer.trace

    @functools.wraps(trace_of_torch)
    def trace(self, f, *args):
        if not any(_C.is_dtensor(value) for value in _pytree.tree_leaves(args)):
            return trace_of_torch(self, f, *args)
        if self.tracing_mode == "symbolic" or self.pre_dispatch:
            option = "pre_dispatch=True" if self.pre_dispatch else 'tracing_mode="symbolic"'
            raise ValueError(
                f"[make_fx] functions of distributed tensors are traced for their sizes and below autograd, but got {option}. "
                "Leave it out."
            )
        import weft._trace.traced_tensor  # noqa: F401  makes distributed tensors of what the tracer has for local ones known to it

        self.tracing_mode = "fake"  # collectives must be recorded, not run
        layouts = Layouts([], [])
        graph = trace_of_torch(self, _on_local_tensors(f, args, layouts), *_pytree.tree_map(local_value, args))
        graph.weft_layouts = layouts
        return graph

    tracer.trace = trace


def install():
    when_imported("torch.fx.experimental.proxy_tensor", _trace_local_tensors)
