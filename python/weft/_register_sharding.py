"""register_sharding and check_rule: rules for operators of any library."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload, OpOverloadPacket

from weft import _C


def _overloads(where, op) -> list[OpOverload]:
    """The overloads that an op, its name, a packet of them (torch.ops.mylib.scale), or a list of any of these means."""
    if isinstance(op, (list, tuple)):
        return [overload for each in op for overload in _overloads(where, each)]
    if isinstance(op, OpOverload):
        return [op]
    if isinstance(op, OpOverloadPacket):
        return [getattr(op, name) for name in op.overloads()]
    if isinstance(op, torch.library.CustomOpDef):
        return [op._opoverload]
    if isinstance(op, str):
        name, _, overload = op.partition(".")
        library, _, function = name.partition("::")
        try:
            return [getattr(getattr(getattr(torch.ops, library), function), overload or "default")]
        except (AttributeError, RuntimeError):
            raise ValueError(
                f"[{where}] the name of a known operator is required, but got '{op}'. Load the library that defines it "
                "first, and name the overload: 'mylib::scale', 'aten::add.Tensor'."
            ) from None
    raise TypeError(
        f"[{where}] an operator is required, but got {type(op).__name__}. Give torch.ops.mylib.scale.default, what "
        "torch.library.custom_op returns, or 'mylib::scale'."
    )


def _name_of(overload: OpOverload) -> str:
    schema = overload._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def _adapted(function):
    """Calls the function with the arguments that it declares: trailing ones with defaults may be left out."""
    parameters = inspect.signature(function).parameters.values()
    takes_all = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    takes_keywords = any(each.kind is each.VAR_KEYWORD for each in parameters)
    positional = sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters)
    names = {each.name for each in parameters}

    def ask(args, keywords):
        given = args if takes_all else args[:positional]
        named = {name: value for name, value in keywords.items() if takes_keywords or name in names}
        return list(function(*given, **named))

    return ask


def register_sharding(
    op: OpOverload | OpOverloadPacket | str | Sequence[Any], *rules: str
) -> Callable[[Callable[..., Any]], Callable[..., Any]] | None:
    """Says how an operator may be sharded: by a function, or by texts in the notation of docs/rules.md.

        @weft.register_sharding(torch.ops.mylib.softmax.default)
        def softmax_sharding(x, dim):                       # x is a TensorSpec: shape, ndim, dtype, ...
            return [([Shard(d)], [Shard(d), None]) for d in range(x.ndim) if d != dim % x.ndim]

        weft.register_sharding(torch.ops.mylib.scale, "([...,a],[a])->([...,a]) linear={0}")

    The function gets the operator's arguments, TensorSpecs in the place of tensors, and returns pairs of output and input
    placements on one mesh dim; None for what is no tensor. Of several texts the first that fits a call counts. What is
    registered later replaces what was registered before. All ranks must register the same.
    """
    overloads = _overloads("register_sharding", op)
    if rules:
        for overload in overloads:
            _C.register_rule(_name_of(overload), list(rules))
        return None

    def register(function):
        for overload in overloads:
            _C.register_rule_function(_name_of(overload), _adapted(function))
        return function

    return register


def unregister_sharding(op: OpOverload | OpOverloadPacket | str | Sequence[Any]) -> bool:
    """Removes what was registered: the operator runs by Weft's own rule again, or replicated. Whether there was any."""
    return any([_C.unregister_rule(_name_of(overload)) for overload in _overloads("unregister_sharding", op)])


def check_rule(
    op: OpOverload | OpOverloadPacket | str, samples: Iterable[Sequence[Any]], mesh_sizes: Sequence[int] = (2, 3)
) -> list[str]:
    """Tries every strategy that an operator's rule allows, and raises if one gives another result than the plain operator.

        weft.check_rule(torch.ops.mylib.softmax.default, [(torch.randn(4, 6), 1)])

    A sample is a tuple of plain arguments; a dict at its end holds keyword arguments. The operator runs once per rank of
    a mesh of each size, in this process, on what the rank would hold. Returns the strategies that were tried.
    """
    overload = _overloads("check_rule", op)[0]
    tried, wrong = set(), []
    for number, sample in enumerate(samples):
        *args, last = sample
        keywords = last if isinstance(last, dict) else {}
        args = args if isinstance(last, dict) else [*args, last]
        for ranks in mesh_sizes:
            schema = overload._schema
            for strategy, problem in _C.check_rule(schema.name, schema.overload_name, tuple(args), keywords, ranks):
                tried.add(strategy)
                if problem:
                    wrong.append(f"  {strategy} on {ranks} ranks, sample {number}: {problem}")
    if wrong:
        lines = "\n".join(wrong)
        raise ValueError(f"[check_rule] every strategy of {_name_of(overload)} must be right, but got\n{lines}\nCorrect its rule.")
    return sorted(tried)
