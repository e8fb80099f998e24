"""Traced tensors with open sizes: those that a tracer leaves to be given when a program runs (mark_dynamic, or an argument that has
had two sizes).

Weft's rules, redistribution plans and kernels work on numbers. A function of tensors with open sizes runs for two choices of
numbers (sized_run.py), and where its calls agree but for numbers that are products of open sizes, these calls are made on the
traced local tensors, with the open sizes in them. That is a conjecture: before the program runs for other sizes, its guard runs the
function for these sizes too, and they must give the same calls. So a program is used only where tracing it anew would give the
same program. Where the two choices do not agree, the sizes become constants.
"""

import functools
import itertools
import math

import sympy
import torch
from torch.utils import _pytree

from weft import _C
from weft._trace.sized_run import Given, Ref, SizedRun, Value
from weft._trace.switches import switches


def _expression(size):
    return size.node.expr


def has_open_sizes(value):
    """Whether a value of a traced call is an open size or a tensor that has some."""
    if isinstance(value, torch.SymInt):
        return True
    if not isinstance(value, torch.Tensor):
        return False
    local = _C.traced_parts(value)[0] if _C.is_dtensor(value) else value
    return any(isinstance(size, torch.SymInt) for size in (*value.shape, *local.shape))


def _number(size, sizes):
    return int(_expression(size).xreplace(sizes)) if isinstance(size, torch.SymInt) else size


class _OpenSize:
    """How an open size among the arguments is given."""

    def __init__(self, size):
        self.size = size

    def sizes(self):
        return [self.size]

    def __call__(self, sizes):
        return _number(self.size, sizes)


class _TensorLike:
    """How a tensor is made for given sizes."""

    def __init__(self, tensor, wants_gradient):
        self.spec = None
        self.is_parameter = False
        local = tensor
        if _C.is_dtensor(tensor):
            local, self.spec, self.is_parameter = _C.traced_parts(tensor)
            self.global_sizes = tuple(tensor.shape), tuple(tensor.stride())
        self.local_sizes = tuple(local.shape), tuple(local.stride())
        self.dtype, self.device = local.dtype, local.device
        self.wants_gradient = wants_gradient

    def sizes(self):
        return [*itertools.chain(*self.local_sizes), *(itertools.chain(*self.global_sizes) if self.spec else ())]

    def sized(self, sizes):
        shape, stride = ([_number(size, sizes) for size in each] for each in self.local_sizes)
        tensor = torch.empty_strided(shape, stride, dtype=self.dtype, device=self.device)
        if self.spec is not None:
            shape, stride = ([_number(size, sizes) for size in each] for each in self.global_sizes)
            tensor = _C.wrap_local_tensor(tensor, self.spec.with_sizes(shape, stride), self.is_parameter)
        return tensor.requires_grad_() if self.wants_gradient else tensor


class _Disagreement(Exception):
    """Runs for two choices of sizes differ in more than sizes."""


class _Sizes:
    """The open sizes of a call, and numbers as products of them."""

    def __init__(self, leaves):
        open_sizes = {}
        for leaf in leaves:
            for size in leaf.sizes() if isinstance(leaf, (_TensorLike, _OpenSize)) else ():
                if isinstance(size, torch.SymInt) and _expression(size).free_symbols:
                    open_sizes[_expression(size)] = size
        self.open = list(open_sizes.values())
        self.symbols = sorted({symbol for each in open_sizes for symbol in each.free_symbols}, key=str)
        self.environment = self.open[0].node.shape_env if self.open else None

    def choices(self, step):
        """The sizes of the example, each with others that as many ranks divide: first those that change one by one, then those that
        grow together, for functions that need equal sizes to stay equal."""
        values = self.environment.backed_var_to_val if self.open else {}
        first = {symbol: int(values[symbol]) for symbol in self.symbols}
        yield first, {symbol: size + step * (i + 1) for i, (symbol, size) in enumerate(first.items())}
        if len(first) > 1:
            yield first, {symbol: 2 * size for symbol, size in first.items()}

    def product(self, numbers, choices):
        """The open size that has these numbers, or a multiple or fraction of one or of a product of two."""
        factors = [((size,), [_number(size, choice) for choice in choices]) for size in self.open]
        for (size,), known in factors:
            if list(numbers) == known:
                return size
        pairs = itertools.combinations_with_replacement(factors, 2)
        factors += [((*a, *b), [m * n for m, n in zip(one, other)]) for (a, one), (b, other) in pairs]
        related = [(sizes, known) for sizes, known in factors if numbers[0] * known[1] == numbers[1] * known[0]]
        for sizes, known in related:
            if all(number % k == 0 for number, k in zip(numbers, known)):
                return math.prod(sizes) * (numbers[0] // known[0])
        for sizes, known in related:
            if all(number > 0 and k % number == 0 for number, k in zip(numbers, known)):
                return math.prod(sizes) // (known[0] // numbers[0])
        raise _Disagreement


def _agreed(values, same):
    """What two runs have in common, by `same` for two numbers that differ."""
    first, second = values
    if type(first) is not type(second):
        raise _Disagreement
    if isinstance(first, (tuple, list)):
        if len(first) != len(second):
            raise _Disagreement
        items = [_agreed(pair, same) for pair in zip(first, second)]
        return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
    if first == second:
        return first
    if type(first) is int:
        return same(first, second)
    raise _Disagreement


def _fits(found, general, sizes):
    """Whether a run for given sizes is the general one."""

    def same(number, size):
        raise _Disagreement

    def sized(value):
        if isinstance(value, (tuple, list)):
            items = [sized(each) for each in value]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return _number(value, sizes)

    try:
        _agreed((found, sized(general)), same)
    except _Disagreement:
        return False
    return True


class _General:
    """A function of tensors with open sizes, as the calls on local tensors that it makes for all of them."""

    def __init__(self, function, leaves, records_gradients):
        self.function = function
        self.records_gradients = records_gradients
        self.switches = switches()
        self.leaves = [self._description(leaf) for leaf in leaves]
        self.sizes = _Sizes(self.leaves)
        self.gradients_given = None
        meshes = [leaf.spec.mesh for leaf in self.leaves if isinstance(leaf, _TensorLike) and leaf.spec is not None]
        step = meshes[0].size() if meshes else _world_size()
        choices = list(self.sizes.choices(step))
        first = self._run(choices[0][0])
        if not self.sizes.open or first.draws() or not any(self._agrees(first, choice) for choice in choices):
            self._close_sizes()
            self.runs = [first]
            self.calls, self.results = first.calls, first.results
        if len(self.runs) > 1:
            self.sizes.environment.__dict__.setdefault("_weft_calls", []).append(self)

    def symbols(self):
        return {symbol for size in self.sizes.open for symbol in _expression(size).free_symbols}

    def is_open(self):
        """Whether sizes are still open: what is traced later may have made them constants."""
        return bool(self.symbols())

    def _description(self, leaf):
        if isinstance(leaf, torch.SymInt):
            return _OpenSize(leaf)
        return _TensorLike(leaf, self.records_gradients and leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf

    def _run(self, sizes):
        return SizedRun(self.function, self.leaves, sizes, self.records_gradients, self.switches)

    def _agrees(self, first, choices):
        """Whether the run for the other choice makes the same calls. Then these two are the runs."""
        try:
            self.choices = choices
            self.runs = [first, self._run(choices[1])]
            self.calls, self.results = self._common([(run.calls, run.results) for run in self.runs])
        except Exception:  # a disagreement, or an error for these sizes alone
            return False
        return True

    def _common(self, values):
        if len(values) == 1:
            return values[0]
        return _agreed(values, lambda *numbers: self.sizes.product(numbers, self.choices))

    def _close_sizes(self):
        """Makes the open sizes constants of the program."""
        for size in self.sizes.open:
            int(size)

    def replay(self, replay, leaves):
        replay.take(leaves)
        replay.make(self.calls)
        return replay.values(self.results, self.runs[0].specs, leaves)

    def replay_backward(self, replay, gradients):
        """The gradients of the inputs that want one, from those of the results that are tensors."""
        given = iter(gradients)
        gradients = [next(given) if isinstance(result, (Value, Given)) else None for result in self.results]
        self.gradients_given = [None if gradient is None else _TensorLike(gradient, False) for gradient in gradients]
        self.runs[0].differentiate(self.gradients_given)
        try:
            for run in self.runs[1:]:
                run.differentiate(self.gradients_given)
            self.backward = self._common([(run.backward_calls, run.gradients) for run in self.runs])
        except Exception:  # a disagreement, or an error for the other sizes alone
            self._close_sizes()
            self.backward = self.runs[0].backward_calls, self.runs[0].gradients
        calls, results = self.backward
        replay.take(gradients)
        replay.make(calls)
        return replay.values(results, self.runs[0].gradient_specs, ())

    def holds_for(self, sizes):
        """Whether the function makes these calls for other sizes too."""
        try:
            run = self._run(sizes)
            if not (_fits(run.calls, self.calls, sizes) and _fits(run.results, self.results, sizes)):
                return False
            if self.gradients_given is None:
                return True
            run.differentiate(self.gradients_given)
            return _fits((run.backward_calls, run.gradients), self.backward, sizes)
        except Exception:
            return False  # the error is raised again when the function is traced for these sizes


def _world_size():
    return torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1


class _Replay:
    """Makes the calls of a general run on traced local tensors."""

    def __init__(self):
        self.tensors = []  # by the numbers of references

    def take(self, leaves):
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                self.tensors.append(_C.traced_parts(leaf)[0] if _C.is_dtensor(leaf) else leaf)

    def make(self, calls):
        for operator, (structure, *given), made in calls:
            values = [self.tensors[each.number] if isinstance(each, Ref) else each for each in given]
            args, kwargs = _pytree.tree_unflatten(values, structure)
            for ref, tensor in zip(made, _pytree.tree_leaves(operator(*args, **kwargs)), strict=True):
                if isinstance(ref, Ref) and ref.number == len(self.tensors):
                    self.tensors.append(tensor)

    def values(self, results, specs, leaves):
        return [self._value(result, spec, leaves) for result, spec in zip(results, specs, strict=True)]

    def _value(self, result, spec, leaves):
        if isinstance(result, Given):
            return leaves[result.number]
        if not isinstance(result, Value):
            return result
        local = self.tensors[result.local.number]
        return local if spec is None else with_open_sizes(local, spec, result.kind[-1], result.shape, result.stride)


def with_open_sizes(local, spec, is_parameter, shape, stride):
    """A distributed tensor of a traced local tensor. Its spec has the sizes of the example in place of open ones."""
    tensor = _C.wrap_local_tensor(local, spec, is_parameter)
    if any(isinstance(size, torch.SymInt) for size in (*shape, *stride)):
        _C.set_open_sizes(tensor, shape, stride)
    return tensor


def relate_sizes(tensor):
    """Tells the tracer how the open sizes of an argument and those of its local tensor belong together: the ranks hold equal
    shards. What they do not divide becomes constant."""
    local, spec, _ = _C.traced_parts(tensor)
    for dim, (size, local_size) in enumerate(zip(tensor.shape, local.shape, strict=True)):
        ranks = math.prod(spec.mesh.shape[m] for m in spec.shard_order(dim))
        if not (isinstance(size, torch.SymInt) and isinstance(local_size, torch.SymInt) and size == ranks * local_size):
            int(size), int(local_size)



class _OverOpenSizes(torch.autograd.Function):
    """A general function that has gradients."""

    @staticmethod
    def forward(ctx, general, results, *leaves):
        ctx.general, ctx.replay = general, _Replay()
        ctx.set_materialize_grads(False)
        ctx.is_tensor = [isinstance(leaf, torch.Tensor) for leaf in leaves]
        ctx.wants = [is_tensor and leaf.requires_grad for is_tensor, leaf in zip(ctx.is_tensor, leaves)]
        results[:] = general.replay(ctx.replay, leaves)
        return tuple(value for value in results if isinstance(value, torch.Tensor))

    @staticmethod
    def backward(ctx, *gradients):
        made = iter(ctx.general.replay_backward(ctx.replay, gradients))
        return None, None, *(next(made) if wants else None for wants in ctx.wants)


def over_open_sizes(function, args, kwargs, records_gradients=False):
    """function(*args, **kwargs), some of whose arguments have open sizes."""
    leaves, structure = _pytree.tree_flatten((args, kwargs))
    records_gradients = records_gradients and torch.is_grad_enabled()

    def call(leaves):
        args, kwargs = _pytree.tree_unflatten(leaves, structure)
        return function(*args, **kwargs)

    general = _General(call, leaves, records_gradients)
    if not any(isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in leaves) or not records_gradients:
        results = general.replay(_Replay(), leaves)
    else:
        results: list = []
        tensors = iter(_OverOpenSizes.apply(general, results, *leaves))
        results = [next(tensors) if isinstance(value, torch.Tensor) else value for value in results]
    return _pytree.tree_unflatten(results, general.runs[0].structure)


def generalise(tensor, function):
    """The same for a differentiable function of one tensor; C++ calls this."""
    know_kernels_with_gradients()
    return over_open_sizes(function, (tensor,), {}, records_gradients=True)


@functools.cache
def know_kernels_with_gradients():
    """Tells tracers of the kernels of Weft that autograd calls, which are functions of numbers. Tracers of open sizes enable
    Python's dispatcher, which asks these functions first. Called when the first tensor is traced: Weft has registered its kernels
    by then."""
    key = torch._C.DispatchKey.AutogradPrivateUse2
    for name in torch._C._dispatch_get_registrations_for_dispatch_key("AutogradPrivateUse2"):
        namespace, _, rest = name.partition("::")
        name, _, overload = rest.partition(".")
        _let_ask(getattr(getattr(getattr(torch.ops, namespace), name), overload or "default"), key)


def _let_ask(operator, key):
    if key in operator.py_kernels:
        return

    @operator.py_impl(key)
    def call(*args, **kwargs):
        if any(map(has_open_sizes, _pytree.tree_leaves((args, kwargs)))):
            return over_open_sizes(operator, args, kwargs, records_gradients=True)
        return operator._op_dk(key, *args, **kwargs)


def is_open(value):
    """Whether a tensor has sizes that are still open: what was traced since may have made them constants."""
    return any(isinstance(size, torch.SymInt) and _expression(size).free_symbols for size in value.shape)


def open_guard(tensor, fake):
    """Whether another tensor is like this one in all but the open sizes. Those are for the guards of the tracer."""
    static = [dim for dim, size in enumerate(fake.shape) if isinstance(size, int) or not _expression(size).free_symbols]

    def kind(value):
        _, spec, is_parameter = _C.traced_parts(value)
        sizes = tuple(spec.shape[dim] for dim in static) if spec.ndim == fake.dim() else None
        return spec.mesh, spec.layout, spec.dtype, sizes, is_parameter, _C.tracing_state()

    wanted = kind(tensor)
    return lambda value: _C.is_dtensor(value) and kind(value) == wanted


def guard_of(shape_env, scope):
    """Whether the general calls that tracing made hold for the arguments of another call; None if there are none. Asked once for
    each choice of sizes. `scope` has the names by which guards speak of arguments, and the first call's under L."""
    generals = shape_env.__dict__.get("_weft_calls", ())
    generals = [general for general in generals if general.is_open()]
    if not generals:
        return None
    symbols = sorted({symbol for general in generals for symbol in general.symbols()}, key=str)
    names = [shape_env.var_to_sources[symbol][0].name for symbol in symbols]
    # As torch's own guards do, which forget the first call's arguments: they would live as long as the function.
    read = eval(f"lambda L: ({', '.join(names)},)", {name: value for name, value in scope.items() if name != "L"})

    @functools.lru_cache(maxsize=256)
    def holds_for(*values):
        sizes = dict(zip(symbols, map(sympy.Integer, values), strict=True))
        return all(general.holds_for(sizes) for general in generals)

    example = tuple(int(shape_env.backed_var_to_val[symbol]) for symbol in symbols)
    return lambda values: (given := read(values)) == example or holds_for(*given)
