"""An fx graph as a program of Weft's compiler, and what a pass has changed in the program back in the graph.

C++ decides; this file translates. Every fx node becomes a node of the program with the types of its fake value. After the pass,
nodes that are left keep their fx nodes, new ones become calls, and the others are erased.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from weft import _C

_UNKNOWN = object()  # the value of a node that passes do not know: no constant either

# What a node that is made for another one takes over from it, for error messages and profiles.
_ORIGIN = ("stack_trace", "nn_module_stack", "source_fn_stack", "original_aten", "torch_fn", "seq_nr", "custom")


def _module_path(node: fx.Node) -> str:
    stack = node.meta.get("nn_module_stack") or {}
    path = next(reversed(stack.values()))[0] if stack else ""
    return path if isinstance(path, str) else ""


class FxTranslation:
    """The program of a graph. `where` begins the texts of errors."""

    def __init__(self, graph: fx.Graph, where: str):
        self._graph = graph
        self._where = where
        self.program = _C.FxProgram()
        self._values: dict[fx.Node, Any] = {}  # per node its value, a list of values, or _UNKNOWN
        self._nodes: dict[int, fx.Node] = {}  # by the ids of the program's nodes
        self._makers: dict[int, fx.Node] = {}  # by the ids of values
        self._elements: dict[int, tuple[fx.Node, int]] = {}  # of a list that a node gives, by the ids of values
        self._getitems: dict[fx.Node, list[fx.Node]] = {}  # by the node that gives the list
        for node in graph.nodes:
            self._add(node)

    # From fx to the program.

    def _add(self, node: fx.Node) -> None:
        if node.op in ("placeholder", "get_attr"):
            self._add_input(node)
        elif node.op == "output":
            returned: list[Any] = []
            fx.map_arg(node.args, lambda each: returned.extend(self._flat(self._values[each])))
            self._nodes[self.program.finish(returned)] = node
        elif not self._add_getitem(node):
            self._add_call(node)

    @staticmethod
    def _flat(value: Any) -> list[Any]:
        return [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, _C.FxValue)]

    def _add_input(self, node: fx.Node) -> None:
        fake = node.meta.get("val")
        if fake is None and node.op == "get_attr":
            module = self._graph.owning_module
            fake = operator.attrgetter(node.target)(module) if module is not None else None
        type = self._type(fake)
        self._values[node] = _UNKNOWN if type is None else self.program.add_input(node.name, type)
        self._remember(node)

    def _add_getitem(self, node: fx.Node) -> bool:
        """Whether the node takes an element of a list that a call gives, which is a value of its own in the program."""
        if node.target is not operator.getitem or not isinstance(node.args[0], fx.Node):
            return False
        source, index = node.args
        values = self._values[source]
        if not isinstance(values, list) or not isinstance(index, int):
            return False
        self._values[node] = values[index]
        self._getitems.setdefault(source, []).append(node)
        self._remember(node)
        return True

    def _add_call(self, node: fx.Node) -> None:
        op, overload, returns = self._target(node)
        types = [[self._type(each) for each in one] if isinstance(one, (list, tuple)) else self._type(one) for one in returns]
        if not all(map(self._is_known, returns, types)):
            op = ""
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda each: self._values[each])
        call_id, results = self.program.call(
            op, overload, tuple(args), dict(kwargs), types, self._names(node, types), node.name, _module_path(node)
        )
        self._nodes[call_id] = node
        fake = node.meta.get("val")
        if isinstance(fake, (list, tuple)):
            flat = results[0] if len(results) == 1 and isinstance(results[0], list) else results
            self._values[node] = flat
            self._elements.update({each.id: (node, i) for i, each in enumerate(flat) if isinstance(each, _C.FxValue)})
        else:
            self._values[node] = results[0] if results and results[0] is not None else _UNKNOWN
            self._remember(node)

    def _target(self, node: fx.Node) -> tuple[str, str, list[Any]]:
        """The operator or function, and the fake value of each of its results."""
        fake = node.meta.get("val")
        target = node.target
        if isinstance(target, torch._ops.OpOverload):
            schema = target._schema
            if "val" not in node.meta and schema.returns:
                raise ValueError(
                    f'[{self._where}] every node of the graph must have a fake value in its meta["val"], but got none for '
                    f"%{node.name}. Export the program, or trace it by make_fx with tracing_mode='fake'."
                )
            returns = [fake] if len(schema.returns) == 1 else list(fake or ())
            return schema.name, schema.overload_name, returns
        if callable(target):
            name = f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', '')}"
        else:
            name = str(target)
        returns = list(fake) if isinstance(fake, (list, tuple)) else [] if fake is None else [fake]
        return name, "", [None if isinstance(each, (list, tuple)) else each for each in returns]

    @staticmethod
    def _is_known(fake: Any, type: Any) -> bool:
        """Whether a result has a type, or each of a list; a result of None needs none."""
        if isinstance(fake, (list, tuple)):
            return all(map(FxTranslation._is_known, fake, type))
        return (fake is None) == (type is None)

    @staticmethod
    def _names(node: fx.Node, types: list[Any]) -> list[str]:
        """The names of a call's values: its own, or those of the nodes that take the elements of its list."""
        if len(types) == 1 and not isinstance(types[0], list):
            return [node.name]
        taken = {
            user.args[1]: user.name
            for user in node.users
            if user.target is operator.getitem and isinstance(user.args[1], int)
        }
        count = sum(len(type) if isinstance(type, list) else 1 for type in types)
        return [taken.get(i, "") for i in range(count)]

    def _remember(self, node: fx.Node) -> None:
        value = self._values[node]
        if isinstance(value, _C.FxValue):
            self._makers.setdefault(value.id, node)

    def _type(self, fake: Any) -> tuple | None:
        if isinstance(fake, torch.Tensor):
            if fake.layout != torch.strided:
                return None
            return fake.dtype, [self._size(s) for s in fake.shape], [self._size(s) for s in fake.stride()], fake.device
        numbers = {"bool": (bool, torch.SymBool), "int": (int, torch.SymInt), "float": (float, torch.SymFloat)}
        kind = next((name for name, types in numbers.items() if isinstance(fake, types)), None)
        return None if kind is None else (kind, str(fake.node.expr if hasattr(fake, "node") else fake))

    def _size(self, size: Any) -> int | str:
        if isinstance(size, int):
            return size
        expression = size.node.expr
        if expression.is_number:
            return int(expression)
        hints = getattr(size.node.shape_env, "backed_var_to_val", None) or getattr(size.node.shape_env, "var_to_val", {})
        for symbol in expression.free_symbols:
            if symbol in hints:
                self.program.add_symbol(symbol.name, int(hints[symbol]))
        from sympy import srepr  # imported by torch once there are symbols

        return srepr(expression)

    # From the program to fx.

    def write_back(self) -> None:
        """Makes the graph what the program is now."""
        first = [node for node in self._graph.nodes if node.op == "placeholder"]
        first += [node for node in self._graph.nodes if node.op == "get_attr"]
        order = []
        for changed in self.program.nodes():
            node = self._nodes.get(changed.id)
            if node is None:
                node = self._make(changed)
            elif changed.replaced:
                by = {old: self._node_of(new) for old, new in changed.replaced.items()}
                node.args, node.kwargs = fx.map_arg((node.args, node.kwargs), lambda each: by.get(self._id(each), each))
            order.append(node)
        everything = [*first, *(each for node in order for each in (node, *self._getitems.get(node, ())))]
        kept = set(everything)
        for node in reversed(list(self._graph.nodes)):
            if node not in kept:
                self._graph.erase_node(node)
        for before, node in zip(everything, everything[1:]):
            if before.next is not node:
                before.append(node)

    def _id(self, node: fx.Node) -> int | None:
        value = self._values.get(node)
        return value.id if isinstance(value, _C.FxValue) else None

    def _node_of(self, value: _C.FxValue) -> fx.Node:
        known = self._makers.get(value.id)
        if known is not None:
            return known
        source, index = self._elements[value.id]
        node = self._graph.call_function(operator.getitem, (source, index))
        node.meta["val"] = source.meta["val"][index]
        self._take_origin(node, source)
        self._getitems.setdefault(source, []).append(node)
        self._makers[value.id] = node
        self._values[node] = value
        return node

    def _make(self, made: _C.FxNode) -> fx.Node:
        target = self._operator(made.op, made.overload)
        as_nodes = lambda given: self._node_of(given) if isinstance(given, _C.FxValue) else given
        args = tuple(torch.utils._pytree.tree_map(as_nodes, list(made.args)))
        kwargs = torch.utils._pytree.tree_map(as_nodes, dict(made.kwargs))
        node = self._graph.call_function(target, args, kwargs)
        self._run_without_data(node)
        origin = next((each for each in self._nodes.values() if each.name == made.made_for), None)
        if origin is not None:
            self._take_origin(node, origin)
        self._nodes[made.id] = node
        if made.is_list:
            self._elements.update({each.id: (node, i) for i, each in enumerate(made.outputs) if each is not None})
        else:
            self._makers[made.outputs[0].id] = node
            self._values[node] = made.outputs[0]
        return node

    @staticmethod
    def _run_without_data(node: fx.Node) -> None:
        """Sets the node's fake value."""
        values = [each.meta["val"] for each in node.all_input_nodes]
        modes = [each.fake_mode for each in values if isinstance(each, FakeTensor)]
        mode = modes[0] if modes else FakeTensorMode()

        def fake(operand: fx.Node) -> Any:
            value = operand.meta["val"]
            if not isinstance(value, torch.Tensor) or (isinstance(value, FakeTensor) and value.fake_mode is mode):
                return value
            # make_fx on real tensors keeps one mode per value.
            return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)

        with mode, torch.no_grad():
            args, kwargs = fx.map_arg((node.args, node.kwargs), fake)
            node.meta["val"] = node.target(*args, **kwargs)

    @staticmethod
    def _operator(name: str, overload: str) -> Any:
        library, op = name.split("::")
        return getattr(getattr(getattr(torch.ops, library), op), overload or "default")

    @staticmethod
    def _take_origin(node: fx.Node, origin: fx.Node) -> None:
        node.meta.update({key: origin.meta[key] for key in _ORIGIN if key in origin.meta})
