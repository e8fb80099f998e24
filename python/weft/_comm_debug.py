"""comm_debug: what this rank communicates, by operator and module."""

from __future__ import annotations

import threading
import weakref

from torch.autograd.graph import register_multi_grad_hook
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from weft import _C, _containers, _groups

_thread = threading.local()  # .active: the innermost comm_debug of this rank
_names = weakref.WeakKeyDictionary()  # module -> "Transformer.layers.0"
_lock = threading.Lock()
_hooks = []
_users = 0


def _name_of(module):
    if module not in _names:
        root = type(module).__name__
        for name, submodule in module.named_modules():
            _names[submodule] = f"{root}.{name}" if name else root
    return _names[module]


def _tracked(values):
    return [leaf for leaf in _containers.leaves(values) if hasattr(leaf, "requires_grad") and leaf.requires_grad]


def _before_forward(module, inputs):
    active = getattr(_thread, "active", None)
    if active is None:
        return
    name = _name_of(module)
    active._enter(name)
    if tensors := _tracked(inputs):
        register_multi_grad_hook(tensors, lambda _: active._leave(name))


def _after_forward(module, inputs, output):
    active = getattr(_thread, "active", None)
    if active is None:
        return
    name = _name_of(module)
    active._leave(name)
    if tensors := _tracked(output):
        register_multi_grad_hook(tensors, lambda _: active._enter_backward(name), mode="any")


def _use_hooks():
    # They are global to the process: installed while any rank counts, and idle on ranks that do not.
    global _users
    with _lock:
        _users += 1
        if _users == 1:
            _hooks.append(register_module_forward_pre_hook(_before_forward))
            _hooks.append(register_module_forward_hook(_after_forward, always_call=True))


def _release_hooks():
    global _users
    with _lock:
        _users -= 1
        while _users == 0 and _hooks:
            _hooks.pop().remove()


class comm_debug:
    """Counts this rank's collectives while it lasts, and the bytes it receives.

        with weft.comm_debug() as c:
            model(x).sum().backward()
        c.calls, c.bytes                # of all
        c.by_operator()                 # {"aten::linear": (calls, bytes)}
        c.by_module()                   # {"Transformer.layers.0": (calls, bytes)}
        print(c)                        # a table of module, operator, collective and mesh dims

    A collective counts for the innermost module that is running, forward or backward; "" where none is.
    """

    def __init__(self):
        self._counter = _C.CommCounter()
        self._stack = []

    def __enter__(self) -> comm_debug:
        self._outer = getattr(_thread, "active", None)
        self._counter.attach(_groups.current_world())
        _thread.active = self
        _use_hooks()
        return self

    def __exit__(self, *error):
        _release_hooks()
        _thread.active = self._outer
        self._counter.detach()

    def _in(self, stack):
        self._stack = stack
        self._counter.set_module(stack[-1] if stack else "")
        if self._outer is not None:
            self._outer._in(stack)

    def _enter(self, name):
        self._in([*self._stack, name])

    def _leave(self, name):
        # A module that raised leaves its name, and those of the modules in it, behind.
        if name in self._stack:
            self._in(self._stack[: len(self._stack) - 1 - self._stack[::-1].index(name)])

    def _enter_backward(self, name):
        # The modules around this one are known from its name, because no hook ends a module whose inputs need no gradient.
        self._in([other for other in self._stack if name.startswith(other + ".")] + [name])

    @property
    def rows(self) -> list[_C.CommRow]:
        """One per module, operator, collective and mesh dims."""
        return self._counter.rows()

    @property
    def calls(self) -> int:
        return sum(row.calls for row in self.rows)

    @property
    def bytes(self) -> int:
        return sum(row.bytes for row in self.rows)

    def _sums(self, key):
        sums = {}
        for row in self.rows:
            calls, received = sums.get(key(row), (0, 0))
            sums[key(row)] = (calls + row.calls, received + row.bytes)
        return sums

    def by_operator(self) -> dict[str, tuple[int, int]]:
        """{operator: (calls, bytes)}."""
        return self._sums(lambda row: row.operator)

    def by_module(self) -> dict[str, tuple[int, int]]:
        """{module: (calls, bytes)}."""
        return self._sums(lambda row: row.module)

    def by_collective(self) -> dict[str, tuple[int, int]]:
        """{collective: (calls, bytes)}."""
        return self._sums(lambda row: row.collective)

    def __str__(self):
        lines = [("module", "operator", "collective", "mesh dims", "calls", "bytes")]
        for row in self.rows:
            lines.append((row.module or "-", row.operator or "-", row.collective, row.mesh_dims, str(row.calls), str(row.bytes)))
        widths = [max(map(len, column)) for column in zip(*lines)]
        return "\n".join("  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip() for line in lines)
