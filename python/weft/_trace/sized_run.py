"""A run of a function with tensors of given sizes instead of open ones, which notes the operators that it calls on local tensors.

Weft decides by numbers. A function of traced tensors whose sizes are open is therefore run for numbers in their place, below all
tracers and without data. What it has called on local tensors is what tracers are to see (open_sizes.py).
"""

import contextlib
from typing import NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from weft import _C
from weft._trace.switches import switched


class Ref(NamedTuple):
    """The n-th local tensor that a run has seen."""

    number: int


class Value(NamedTuple):
    """A tensor that a run gives: the local tensor, and, if it is distributed, the rest of what it is."""

    local: Ref
    kind: tuple | None
    shape: tuple
    stride: tuple


class Given(NamedTuple):
    """A result that is one of the inputs."""

    number: int


class Call(NamedTuple):
    operator: object
    arguments: list
    results: list


class _Tape(TorchDispatchMode):
    """Notes the operators that are called, with references in the place of tensors."""

    def __init__(self, distributed):
        super().__init__()
        self._distributed = distributed
        self.calls = []
        self._numbers = {}  # id of a tensor -> Ref
        self._kept = []  # so that ids stay theirs

    def ref(self, tensor):
        if id(tensor) not in self._numbers:
            self._numbers[id(tensor)] = Ref(len(self._kept))
            self._kept.append(tensor)
        return self._numbers[id(tensor)]

    def knows(self, tensor):
        return id(tensor) in self._numbers

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        if any(issubclass(each, self._distributed) for each in types):
            return NotImplemented  # it comes again, on local tensors
        if operator.namespace == "prim":  # a question, which C++ asks where it has no answer kept
            return operator(*args, **(kwargs or {}))
        leaves, structure = _pytree.tree_flatten((args, kwargs or {}))
        given = [self._given(leaf) for leaf in leaves]
        result = operator(*args, **(kwargs or {}))
        made = [self.ref(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in _pytree.tree_leaves(result)]
        self.calls.append(Call(operator, [structure, *given], made))
        return result

    def _given(self, leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if not self.knows(leaf) and not isinstance(leaf, FakeTensor) and leaf.dim() == 0:
            return leaf.item()  # a number that C++ has given as a tensor
        return self.ref(leaf)


class _Apart:
    """Leaves all tracers of this thread, for tensors without data of given sizes."""

    def __init__(self, mode):
        self._mode = mode

    def __enter__(self):
        self._contexts = [
            _disable_current_modes(),
            torch._C._DisablePythonDispatcher(),
            torch._C._DisableAutocast(),  # casts are operators of their own, before these
            self._mode,
        ]
        for context in self._contexts:
            context.__enter__()

    def __exit__(self, *error):
        for context in reversed(self._contexts):
            context.__exit__(*error)


@contextlib.contextmanager
def _showing_draws():
    """Passes that find out shapes show draws too. The pass that records the program counts them."""
    before = _C.exchange_traced_draws(_C.TracedDraws.Recorded)
    try:
        yield
    finally:
        _C.exchange_traced_draws(before)
        if before != _C.TracedDraws.Recorded:
            _C.take_recorded_draws()


def _specs(values):
    return [_C.spec(value) if isinstance(value, torch.Tensor) and _C.is_dtensor(value) else None for value in values]


class SizedRun:
    """One run. `leaves` are numbers, and tensors as descriptions of how they are made for these sizes. `switches` are those under
    which the function was traced: guards run it at the edge of the compiled function, outside of scopes and modules in there."""

    def __init__(self, function, leaves, sizes, records_gradients, switches):
        self.sizes = sizes
        self._switches = switches
        from weft._trace.traced_tensor import TracedTensor

        self.tape = _Tape(TracedTensor)
        self._mode = FakeTensorMode(static_shapes=True)  # of its own: a thread may compile while another one's guard asks
        with _Apart(self._mode), _showing_draws(), switched(switches):
            self.inputs = [self._sized(leaf) for leaf in leaves]
            with torch.set_grad_enabled(records_gradients), self.tape:
                result = function(self.inputs)
        self.outputs, self.structure = _pytree.tree_flatten(result)
        self.calls = self.tape.calls
        self.results = [self._described(output) for output in self.outputs]
        self.specs = _specs(self.outputs)

    def draws(self):
        """Whether the program draws random numbers here, of which every run has other ones."""
        return any(call.operator is torch.ops.weft.random_call.default for call in self.calls)

    def differentiate(self, gradients):
        """The gradients of the inputs that want one, from those of outputs (None where there is none)."""
        self.tape.calls = self.backward_calls = []
        pairs = [(output, gradient) for output, gradient in zip(self.outputs, gradients, strict=True) if gradient is not None]
        wanted = [leaf for leaf in self.inputs if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        with _Apart(self._mode), switched(self._switches):
            given = [self._sized(gradient) for _, gradient in pairs]
            with self.tape:
                made = torch.autograd.grad([output for output, _ in pairs], wanted, given, allow_unused=True, retain_graph=True)
        self.gradients = [self._described(gradient) for gradient in made]
        self.gradient_specs = _specs(made)

    def _sized(self, leaf):
        if not hasattr(leaf, "sized"):
            return leaf(self.sizes) if callable(leaf) else leaf
        tensor = leaf.sized(self.sizes)
        self.tape.ref(_C.traced_parts(tensor)[0] if _C.is_dtensor(tensor) else tensor)
        return tensor

    def _described(self, value):
        if not isinstance(value, torch.Tensor):
            return value
        for number, given in enumerate(self.inputs):
            if given is value:
                return Given(number)
        local, spec, is_parameter = _C.traced_parts(value) if _C.is_dtensor(value) else (value, None, False)
        if not self.tape.knows(local):
            raise AssertionError("[torch.compile] a result was made by no operator that a tracer could see")
        kind = None if spec is None else (str(spec.mesh), spec.layout, spec.dtype, is_parameter)
        shape, stride = (value.shape, value.stride()) if spec is None else (spec.shape, spec.stride)
        return Value(self.tape.ref(local), kind, tuple(shape), tuple(stride))
