"""How torch.compile's tracer of Python (Dynamo) calls parallelised modules: hooks that are functions of C++ as functions of Python,
and modules that have no other hooks without torch's `_call_impl`, whose questions to the dicts of a module would be guards."""

import functools
import inspect
import types

import torch
from torch import nn

from weft import _C

_HOOKS = ("enter_module", "enter_module_with_keywords", "leave_module")


def _is_hook(value):
    return type(value) is types.BuiltinFunctionType and value.__name__ in _HOOKS and type(value.__self__).__name__ == "PyCapsule"


@functools.cache
def _traceable(hook):
    """A hook of a parallelised module, which is a function of C++, as one of Python that calls it for one tensor at a time."""

    def record(function):
        return torch._dynamo.allow_in_graph(function)

    if hook.__name__ == "enter_module":

        @record
        def enter(tensor, position):
            return hook(None, (None,) * position + (tensor,))[position]

        def enter_module(module, inputs):
            return tuple([enter(v, i) if isinstance(v, torch.Tensor) else v for i, v in enumerate(inputs)])

        return enter_module

    if hook.__name__ == "enter_module_with_keywords":

        @record
        def enter(tensor, position):
            return hook(None, (None,) * position + (tensor,), {})[0][position]

        @record
        def enter_keyword(tensor, name):
            return hook(None, (), {name: tensor})[1][name]

        def enter_module_with_keywords(module, inputs, keyword_inputs):
            entered = tuple([enter(v, i) if isinstance(v, torch.Tensor) else v for i, v in enumerate(inputs)])
            return entered, {k: enter_keyword(v, k) if isinstance(v, torch.Tensor) else v for k, v in keyword_inputs.items()}

        return enter_module_with_keywords

    @record
    def leave(tensor):
        return hook(None, (), tensor)

    @record
    def leave_one(tensor, position):
        return hook(None, (), (None,) * position + (tensor,))[position]

    def leave_module(module, inputs, outputs):
        if isinstance(outputs, torch.Tensor):
            return leave(outputs)
        if isinstance(outputs, (tuple, list)):
            left = [leave_one(v, i) if isinstance(v, torch.Tensor) else v for i, v in enumerate(outputs)]
            return tuple(left) if isinstance(outputs, tuple) else left
        return outputs

    return leave_module


def _forward(module, *inputs, **keywords):
    return module.forward(*inputs, **keywords)


def _entering(call, enter):
    def call_entered(module, *inputs, **keywords):
        return call(module, *enter(module, inputs), **keywords)

    return call_entered


def _entering_with_keywords(call, enter):
    def call_entered(module, *inputs, **keywords):
        inputs, keywords = enter(module, inputs, keywords)
        return call(module, *inputs, **keywords)

    return call_entered


def _leaving(call, leave):
    def call_and_leave(module, *inputs, **keywords):
        return leave(module, inputs, call(module, *inputs, **keywords))

    return call_and_leave


def _replicating_plain(call):
    def call_replicating(module, *inputs, **keywords):
        if _C.exchange_parallel_forward(True):
            return call(module, *inputs, **keywords)
        try:
            return call(module, *inputs, **keywords)
        finally:
            _C.exchange_parallel_forward(False)

    return call_replicating


def _is_called_as_ever(module):
    """Whether torch's own functions call a module, with no hooks but those that are looked at below."""
    of_instance, cls = vars(module), type(module)
    has_other_hooks = (
        module._backward_hooks
        or module._backward_pre_hooks
        or module._forward_hooks_always_called
        or module._forward_hooks_with_kwargs
        or nn.modules.module._has_any_global_hook()
    )
    return (
        cls.__call__ is nn.Module.__call__
        and cls._call_impl is nn.Module._call_impl
        and module._compiled_call_impl is None
        and not has_other_hooks
        and not any(name in of_instance for name in ("__call__", "_call_impl", "forward"))
        and isinstance(inspect.getattr_static(module, "forward"), types.FunctionType)
    )


def _as_function(module):
    """What a call of a parallelised module does, as a function of the module; None where torch's functions have to say that."""
    entering, leaving = list(module._forward_pre_hooks.items()), list(module._forward_hooks.values())
    replicates_plain = getattr(module, "_weft_replicates_plain", False)
    hooks = [*(hook for _, hook in entering), *leaving]
    if not (hooks or replicates_plain) or not all(map(_is_hook, hooks)) or not _is_called_as_ever(module):
        return None
    call = _forward
    for number, hook in reversed(entering):
        has_keywords = number in module._forward_pre_hooks_with_kwargs
        call = (_entering_with_keywords if has_keywords else _entering)(call, _traceable(hook))
    for hook in leaving:
        call = _leaving(call, _traceable(hook))
    return _replicating_plain(call) if replicates_plain else call


def _show_hooks(builder):
    from torch._dynamo.guards import GuardBuilder
    from torch._dynamo.variables import UserFunctionVariable
    from torch._dynamo.variables.base import VariableTracker

    class HookVariable(VariableTracker):
        def __init__(self, hook, **options):
            super().__init__(**options)
            self.hook = hook

        def python_type(self):
            return type(self.hook)

        def as_python_constant(self):
            return self.hook

        def call_function(self, tx, args, kwargs):
            return UserFunctionVariable(_traceable(self.hook)).call_function(tx, args, kwargs)

    wrap = builder.VariableBuilder._wrap

    @functools.wraps(wrap)
    def wrap_hook(self, value):
        if _is_hook(value):
            self.install_guards(GuardBuilder.ID_MATCH)
            return HookVariable(value, source=self.source)
        return wrap(self, value)

    builder.VariableBuilder._wrap = wrap_hook


def _shorten_calls(nn_module):
    from torch._dynamo import config
    from torch._dynamo.guards import GuardBuilder, get_verbose_code_parts, install_guard
    from torch._dynamo.utils import is_lazy_module
    from torch._dynamo.variables import UserFunctionVariable

    def WEFT_CALL_MATCH(self, guard):
        code = [f"weft: {guard.name} is called with the same hooks"]
        self._set_guard_export_info(guard, code)
        check = _C.module_call_guard(self.get(guard))
        self.get_guard_manager(guard).add_lambda_guard(check, get_verbose_code_parts(code, guard), guard.user_stack)

    GuardBuilder.WEFT_CALL_MATCH = WEFT_CALL_MATCH
    variable = nn_module.UnspecializedNNModuleVariable
    call = variable.call_function

    @functools.wraps(call)
    def call_function(self, tx, args, kwargs):
        module, effects = self.value, tx.output.side_effects
        is_changed = effects.has_pending_mutation(self) or module._forward_hooks in effects or module._forward_pre_hooks in effects
        is_known = self.source and not is_changed and config.skip_nnmodule_hook_guards
        function = _as_function(module) if is_known else None
        if function is None:
            # Without hooks torch would call forward alone, and not the __call__ that lets plain tensors count as replicated.
            replicates_plain = getattr(module, "_weft_replicates_plain", False) and not is_lazy_module(module)
            if not replicates_plain or isinstance(module, torch.fx.GraphModule):
                return call(self, tx, args, kwargs)
            return UserFunctionVariable(type(module).__call__).call_function(tx, [self, *args], kwargs)
        install_guard(self.source.make_guard(GuardBuilder.WEFT_CALL_MATCH))
        nn_module.guard_to_detect_forward_monkeypatching(self.source, module)
        with nn_module.record_nn_module_stack(str(id(module)), self.get_nn_module_stack_source(), tx, module):
            return UserFunctionVariable(function).call_function(tx, [self, *args], kwargs)

    variable.call_function = call_function


def install():
    from torch._dynamo.variables import builder, nn_module

    _show_hooks(builder)
    _shorten_calls(nn_module)
