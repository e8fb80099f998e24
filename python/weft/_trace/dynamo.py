"""What torch.compile's tracer of Python (Dynamo) is told of Weft: distributed tensors, meshes and placements, and the functions
that change layouts. Calls of parallelised modules are in module_calls.py."""

import functools

import torch

from weft import _C
from weft._dtensor import DTensor
from weft._trace import module_calls
from weft._trace.open_sizes import guard_of, is_open, open_guard, relate_sizes
from weft._trace.switches import SWITCHES, keeping_switches
from weft._trace.traced_tensor import TracedTensor, traced_form

# Functions that are recorded as one call each, with meshes and placements as constants.
_RECORDED = [_C.from_local, _C.to_local, _C.redistribute, _C.full_tensor]
_PLACEMENTS = [_C.Placement, _C.Replicate, _C.Shard, _C.StridedShard, _C.RaggedShard, _C.Partial]

_meshes = {}  # text -> mesh: in one world a mesh is its text


def _mesh_of_text(text):
    return _meshes[text]


def _teach_isinstance(cls):
    """Gives a class the instance check that torch 2.11 demands of the classes of constants; later versions do it themselves."""
    from torch._opaque_base import OpaqueBaseMeta

    if not isinstance(cls, OpaqueBaseMeta):
        cls.__class__ = type("OpaqueMeta", (type(cls), OpaqueBaseMeta), {})


def _register_values():
    from torch._library.opaque_object import MemberType, register_opaque_type

    def mesh_text(mesh):
        _meshes[str(mesh)] = mesh
        return f"_mesh_of_text({str(mesh)!r})", {"_mesh_of_text": _mesh_of_text}

    _C.Placement.__fx_repr__ = lambda self: (f"_parse_placement({str(self)!r})", {"_parse_placement": _C.parse_placement})
    _C.DeviceMesh.__fx_repr__ = mesh_text
    for cls in [*_PLACEMENTS, _C.DeviceMesh]:
        members = {name: MemberType.USE_REAL for name in dir(cls) if not name.startswith("__") or name in ("__eq__", "__getitem__")}
        if torch.__version__.startswith("2.11."):
            _teach_isinstance(cls)
        register_opaque_type(cls, typ="value", members=members)


def _is_distributed(variable):
    return variable.is_tensor() and isinstance(variable.as_proxy().node.meta.get("example_value"), TracedTensor)


def _example(variable):
    return variable.as_proxy().node.meta["example_value"]


def _check_has_groups(spec):
    """Breaks the graph where collectives could not be recorded, because the ranks have no process groups."""
    from torch._dynamo.exc import unimplemented

    is_initialized = torch.distributed.is_available() and torch.distributed.is_initialized()
    if spec.mesh.size() == 1 or (is_initialized and not _C.in_world_scope()):
        return
    unimplemented(
        gb_type="Distributed tensor of Weft without process groups",
        context=str(spec),
        explanation="Collectives are recorded by the names of process groups, but the ranks of this mesh have none: they are "
        "threads, or torch.distributed.init_process_group was not called.",
        hints=["Call torch.distributed.init_process_group in processes that torchrun has started."],
    )


def _show_tensors(builder):
    from torch._dynamo.guards import GuardBuilder, get_verbose_code_parts

    wrap, dynamic_dims, wrap_tensor = (
        builder._wrap_to_fake_tensor_and_record_impl,
        builder._automatic_dynamic,
        builder.VariableBuilder.wrap_tensor,
    )

    @functools.wraps(wrap)
    def wrap_traced(e, tx, **options):
        if _C.is_dtensor(e) and not isinstance(e, TracedTensor):
            form = traced_form(e, tx.fake_mode)
            fake = wrap(form, tx, **options)
            relate_sizes(fake)
            contexts = tx.output.tracing_context.tensor_to_context
            contexts[e] = contexts[form]  # AOTAutograd asks for it
            fakes = tx.output.shape_env.__dict__.setdefault("_weft_arguments", {})
            fakes[options["source"].name] = fake
            return fake
        return wrap(e, tx, **options)

    @functools.wraps(dynamic_dims)
    def with_static_parameters(e, tx, source, static_shapes, *args, **options):
        is_parameter = isinstance(e, TracedTensor) and isinstance(e, torch.nn.Parameter)
        return dynamic_dims(e, tx, source, static_shapes or is_parameter, *args, **options)

    def WEFT_SPEC_MATCH(self, guard):
        tensor = self.get(guard)
        fake = self.check_fn_manager.output_graph.shape_env.__dict__.get("_weft_arguments", {}).get(guard.name)
        check = _C.traced_guard(tensor) if fake is None or not is_open(fake) else open_guard(tensor, fake)
        code = [f"weft.spec({guard.name}) is as {str(_C.spec(tensor))!r}"]
        self._set_guard_export_info(guard, code)
        self.get_guard_manager(guard).add_lambda_guard(check, get_verbose_code_parts(code, guard), guard.user_stack)

    def WEFT_STATE_MATCH(self, guard):
        state = _C.tracing_state()
        code = [f"weft.tracing_state() == {state}"]
        self._set_guard_export_info(guard, code)
        self.guard_manager.root.add_lambda_guard(
            lambda _: _C.tracing_state() == state, get_verbose_code_parts(code, guard), guard.user_stack
        )

    shape_guards = GuardBuilder.SHAPE_ENV

    @functools.wraps(shape_guards)
    def SHAPE_ENV(self, guard):
        shape_guards(self, guard)
        check = guard_of(self.check_fn_manager.output_graph.shape_env, self.scope)
        if check is not None:
            code = ["weft: tracing for these sizes gives the same program"]
            self.guard_manager.root.add_epilogue_lambda_guard(check, get_verbose_code_parts(code, guard), guard.user_stack)

    @functools.wraps(wrap_tensor)
    def wrap_guarded(self, value):
        if _C.is_dtensor(value):
            _check_has_groups(_C.spec(value))
            self.install_guards(GuardBuilder.WEFT_SPEC_MATCH)
        return wrap_tensor(self, value)

    GuardBuilder.WEFT_SPEC_MATCH = WEFT_SPEC_MATCH
    GuardBuilder.SHAPE_ENV = SHAPE_ENV
    GuardBuilder.WEFT_STATE_MATCH = WEFT_STATE_MATCH
    builder._wrap_to_fake_tensor_and_record_impl = wrap_traced
    builder._automatic_dynamic = with_static_parameters
    builder.VariableBuilder.wrap_tensor = wrap_guarded


def _show_functions():
    from torch._dynamo import variables
    from torch._dynamo.guards import GuardBuilder, install_guard
    from torch._dynamo.source import GlobalStateSource
    from torch._dynamo.variables.builtin import BuiltinVariable
    from torch._dynamo.variables.constant import ConstantVariable
    from torch._dynamo.variables.torch import TorchInGraphFunctionVariable

    for function in [*_RECORDED, *SWITCHES]:
        torch._dynamo.allow_in_graph(function)
    handlers = TorchInGraphFunctionVariable._get_handlers()

    def depend_on_scopes(self, tx, *args, **options):
        """Without distributed arguments nothing else asks in which scopes a call is."""
        install_guard(GlobalStateSource().make_guard(GuardBuilder.WEFT_STATE_MATCH))

    handlers[_C.from_local] = depend_on_scopes

    def record_switch(exchange):
        def handler(self, tx, value):
            tx.output.create_proxy("call_function", exchange, (value.as_python_constant(),), {})
            return ConstantVariable.create(exchange(value.as_python_constant()))

        torch.fx.node.has_side_effect(exchange)
        handlers[exchange] = handler

    for exchange in SWITCHES:
        record_switch(exchange)

    def answer(function):
        """A function of a tensor that is a constant while tracing."""

        def constant(self, tx, tensor):
            value = function(_example(tensor) if tensor.is_tensor() else tensor.as_python_constant())
            return variables.VariableTracker.build(tx, value)

        torch._dynamo.allow_in_graph(function)
        handlers[function] = constant

    for function in (_C.is_dtensor, _C.placements, _C.device_mesh):
        answer(function)

    def attribute(function):
        def constant(self, tx):
            return variables.VariableTracker.build(tx, function(_example(self))) if _is_distributed(self) else None

        return constant

    variables.TensorVariable.method_attr_placements = attribute(_C.placements)
    variables.TensorVariable.method_attr_device_mesh = attribute(_C.device_mesh)

    plain_isinstance = BuiltinVariable.call_isinstance

    def call_isinstance(self, tx, arg, isinstance_type_var):
        if _is_distributed(arg):
            wanted = isinstance_type_var.as_python_constant()
            if DTensor in (wanted if isinstance(wanted, tuple) else (wanted,)):
                return ConstantVariable.create(True)
        return plain_isinstance(self, tx, arg, isinstance_type_var)

    BuiltinVariable.call_isinstance = call_isinstance


def _without_draws(compile_frame):
    """Passes that find out shapes draw no random numbers; the one that records the program does (compile.py)."""

    @functools.wraps(compile_frame)
    def _compile(*args, **options):
        before = _C.exchange_traced_draws(_C.TracedDraws.Unnumbered)
        try:
            return compile_frame(*args, **options)
        finally:
            _C.exchange_traced_draws(before)

    return _compile


def _keep_switches(convert_frame, output_graph):
    """Tracing that fails or begins anew, and recorded graphs that fail, leave the thread as it was."""
    convert_frame._compile = _without_draws(keeping_switches(convert_frame._compile))
    convert_frame.trace_frame = keeping_switches(convert_frame.trace_frame)
    call_user_compiler = output_graph.OutputGraph.call_user_compiler

    @functools.wraps(call_user_compiler)
    def compile_graph(self, graph_module, inputs):
        compiled = call_user_compiler(self, graph_module, inputs)
        # Backends that compile operators have no switches in what they made.
        runs_switches = compiled is graph_module or getattr(compiled, "__self__", None) is graph_module
        has_switches = any(node.target in SWITCHES for node in graph_module.graph.nodes)
        return keeping_switches(compiled) if runs_switches and has_switches else compiled

    output_graph.OutputGraph.call_user_compiler = compile_graph


def install():
    from torch._dynamo import convert_frame, output_graph
    from torch._dynamo.variables import builder

    _register_values()
    _show_tensors(builder)
    _show_functions()
    module_calls.install()
    _keep_switches(convert_frame, output_graph)
