"""torch.compile over distributed tensors. The tracer (Dynamo, AOTAutograd) is shown a TracedTensor for every distributed
tensor that enters a compiled region (traced_tensor.py); the region itself is given distributed tensors, takes their local
tensors, and makes its results distributed ones, each in one call for all tensors.

torch's modules are imported only when something is compiled, so they are changed as they are imported.
"""

import functools
import weakref

import torch

from weft import _C
from weft._imports import replace, when_imported


def _show_to_dynamo(_):
    from weft._trace import dynamo

    dynamo.install()


def _show_to_fake_mode(fake_tensor):
    from_tensor = fake_tensor.FakeTensorMode.from_tensor

    @functools.wraps(from_tensor)
    def from_distributed(self, tensor, **options):
        if not _C.is_dtensor(tensor):
            return from_tensor(self, tensor, **options)
        from weft._trace.traced_tensor import TracedTensor, traced_form

        if not isinstance(tensor, TracedTensor) and options.get("symbolic_context") is None:
            options = {**options, "static_shapes": True}
        return from_tensor(self, traced_form(tensor, self), **options)

    fake_tensor.FakeTensorMode.from_tensor = from_distributed


def _spec_of(meta):
    """The spec of what AOTAutograd has as a TracedTensor; None of what is no distributed tensor."""
    from weft._trace.traced_tensor import TracedTensor

    if not hasattr(meta, "original_subclass"):
        return None
    is_own = (meta.original_subclass_type or type(meta.original_subclass)) is TracedTensor
    return meta.meta.spec if is_own else None


def _open_places(meta):
    """The places of open sizes and strides in a shape followed by its strides."""
    if not hasattr(meta, "outer_size"):
        return []
    return [i for i, size in enumerate((*meta.outer_size, *meta.outer_stride)) if type(size) is not int or size < 0]


def _entering(metas, specs, written):
    """Gives a region's arguments as local tensors, of which those with open sizes are followed by these."""
    places = [_open_places(meta) if spec is not None else [] for meta, spec in zip(metas, specs)]
    if not any(places):
        of_region = _C.RegionSpecs(specs)
        return lambda arguments: _C.enter_compiled(arguments, of_region, written)

    def sized(argument, spec, where):
        """The spec of what was traced, with an argument's sizes in the open places."""
        if not where or not _C.is_dtensor(argument) or argument.dim() != spec.ndim:
            return spec
        sizes, given = [*spec.shape, *spec.stride], (*argument.shape, *argument.stride())
        for place in where:
            sizes[place] = given[place]
        return spec.with_sizes(sizes[: spec.ndim], sizes[spec.ndim :])

    def enter(arguments):
        known = list(map(sized, arguments, specs, places))
        entered = []
        for i, local in enumerate(_C.enter_compiled(arguments, _C.RegionSpecs(known), written)):
            entered.append(local)
            if i < len(places) and places[i]:
                sizes = (*known[i].shape, *known[i].stride)
                entered += [sizes[place] for place in places[i]]
        return entered

    return enter


def _leaving(make, metas, specs):
    """Makes a region's results distributed by a function of C++, of which those with open sizes are followed by these."""
    places = [_open_places(meta) if spec is not None else [] for meta, spec in zip(metas, specs)]
    if not any(places):
        of_region = _C.RegionSpecs(specs)
        return lambda results, *memory: make(results, of_region, *memory)

    def leave(results, *memory):
        results, left, known = iter(results), [], []
        for spec, where in zip(specs, places):
            left.append(next(results))
            sizes = [*spec.shape, *spec.stride] if where else []
            for place in where:
                sizes[place] = next(results)
            known.append(spec.with_sizes(sizes[: spec.ndim], sizes[spec.ndim :]) if where else spec)
        return make([*left, *results], _C.RegionSpecs(known), *memory)

    return leave


def _cross_boundary(runtime_wrappers):
    wrapper = runtime_wrappers.AOTDispatchSubclassWrapper
    post_compile = wrapper.post_compile

    @functools.wraps(post_compile)
    def crossing(self, compiled_fn, aot_config, *, runtime_metadata):
        compiled_fn = _drawing(compiled_fn, _draws.pop(aot_config.aot_id, None))
        given = [_spec_of(meta) for meta in runtime_metadata.subclass_inp_meta]
        made = [_spec_of(meta) for meta in runtime_metadata.subclass_fw_graph_out_meta]
        if self.maybe_subclass_meta is None or not (any(given) or any(made)):
            return post_compile(self, compiled_fn, aot_config, runtime_metadata=runtime_metadata)
        written = [i for i, info in enumerate(runtime_metadata.input_info) if info.mutates_data]
        enter = _entering(runtime_metadata.subclass_inp_meta, given, written)
        leave = _leaving(_C.leave_compiled, runtime_metadata.subclass_fw_graph_out_meta, made)

        def inner_fn(arguments):
            locals_given = enter(arguments)
            memory = _C.RegionMemory(arguments)
            arguments.clear()
            return leave(compiled_fn(locals_given), memory)

        functools.update_wrapper(inner_fn, compiled_fn)
        inner_fn._boxed_call = True
        return inner_fn

    wrapper.post_compile = crossing
    _take_gradients(runtime_wrappers)
    _give_gradients(runtime_wrappers)


def _take_gradients(runtime_wrappers):
    from weft._trace.traced_tensor import in_layout_of

    autograd = runtime_wrappers.AOTDispatchAutograd
    process = autograd.process_runtime_tangent

    @functools.wraps(process)
    def process_tangent(x, meta, *args, **options):
        if _spec_of(meta) is None or x is None:
            return process(x, meta, *args, **options)
        if not _C.is_dtensor(x) and x.dim() == meta.meta.spec.ndim and not x.any():
            x = _C.distribute_tensor(x, meta.meta.spec.mesh, src_data_rank=None)  # autograd's gradient of an unused result
        if not _C.is_dtensor(x):
            raise ValueError(
                f"[torch.compile] a distributed gradient like {meta.meta.spec} is required, but got a plain one of shape "
                f"{tuple(x.shape)}. Distribute it with from_local."
            )
        known = meta.meta.spec
        if _open_places(meta):
            known = _with_sizes_of(x, known, meta.outer_size)
        x = in_layout_of(x, known)
        return x, [_C.traced_parts(x)[0]]

    autograd.process_runtime_tangent = staticmethod(process_tangent)


def _with_sizes_of(tensor, spec, sizes):
    """The spec of a dense tensor, whose dims are in memory as in another one, with the open sizes of a tensor."""
    given = _C.spec(tensor).shape
    if len(given) != spec.ndim:
        return spec
    shape = [given[dim] if type(size) is not int else size for dim, size in enumerate(sizes)]
    stride, elements = [0] * spec.ndim, 1
    for dim in sorted(range(spec.ndim), key=lambda dim: (spec.stride[dim], -dim)):
        stride[dim] = elements
        elements *= max(shape[dim], 1)
    return spec.with_sizes(shape, stride)


def _leaving_backward(metadata, subclass_metadata):
    """Makes what a compiled backward computes distributed; None where a call for distributed tensors alone cannot make all of
    it."""
    metas = subclass_metadata.grad_input_metas if subclass_metadata is not None else None
    specs = [_spec_of(meta) for meta in metas or ()]
    others = [meta for meta, spec in zip(metas or (), specs, strict=True) if spec is None and hasattr(meta, "original_subclass")]
    if not any(specs) or others or metadata.num_backward_tokens or metadata.is_rng_op_functionalized:
        return None
    return _leaving(_C.leave_backward, metas, specs)


def _give_gradients(runtime_wrappers):
    """Makes the gradients that a compiled backward computes distributed tensors, in one call for all."""
    if not hasattr(runtime_wrappers, "_codegen_backward_epilogue"):
        _give_gradients_of_interpreted(runtime_wrappers)
        return
    make_epilogue = runtime_wrappers._codegen_backward_epilogue

    @functools.wraps(make_epilogue)
    def with_own(fw_metadata, maybe_subclass_meta, codegen_wrap_fn):
        epilogue = make_epilogue(fw_metadata, maybe_subclass_meta, codegen_wrap_fn)
        leave = _leaving_backward(fw_metadata, maybe_subclass_meta)
        if leave is None:
            return epilogue

        def leave_backward(results, make_subclass_override=None):
            if make_subclass_override is not None:
                return epilogue(results, make_subclass_override)
            return leave(results)

        return leave_backward

    replace(runtime_wrappers, "_codegen_backward_epilogue", with_own)


def _give_gradients_of_interpreted(runtime_wrappers):
    """The same in torch 2.11, which generates no code for it."""
    epilogue = runtime_wrappers._backward_epilogue_functional
    leaving = {}  # by the number of the metadata, while these exist

    @functools.wraps(epilogue)
    def leave_backward(metadata, subclass_metadata, results, *, make_subclass_override=None):
        number = id(subclass_metadata)
        if number not in leaving and subclass_metadata is not None:
            leaving[number] = _leaving_backward(metadata, subclass_metadata)
            weakref.finalize(subclass_metadata, leaving.pop, number)
        leave = leaving.get(number) if make_subclass_override is None else None
        if leave is None:
            return epilogue(metadata, subclass_metadata, results, make_subclass_override=make_subclass_override)
        return leave(results)

    replace(runtime_wrappers, "_backward_epilogue_functional", leave_backward)
    _pass_plain_values(runtime_wrappers)


def _pass_plain_values(runtime_wrappers):
    """Torch 2.11 asks each tensor that backward reads whether it is a wrapper. Of plain ones their type tells."""
    unwrap = runtime_wrappers.runtime_unwrap_tensor_subclasses
    plain = {torch.Tensor, torch.nn.Parameter, int}

    @functools.wraps(unwrap)
    def unwrap_others(wrapped_args, *, append_symints, subclass_metas=None):
        if not append_symints and plain.issuperset(map(type, wrapped_args)):
            return list(wrapped_args)
        return unwrap(wrapped_args, append_symints=append_symints, subclass_metas=subclass_metas)

    replace(runtime_wrappers, "runtime_unwrap_tensor_subclasses", unwrap_others)


_draws = {}  # id of a compilation -> the random numbers that its program draws, until the program is given its boundary


def _drawing(compiled_fn, draws):
    """The compiled program, each of whose runs takes as many calls of the random state as the program has draws."""
    if draws is None:
        return compiled_fn

    def run(arguments):
        return _C.run_drawing(draws, compiled_fn, arguments)

    functools.update_wrapper(run, compiled_fn)
    run._boxed_call = True
    return run


def _record_draws(graph_capture):
    create_graph = graph_capture._create_graph

    @functools.wraps(create_graph)
    def recording(f, args, args_descs=None, *, aot_config):
        # Nothing would take the calls where an exported program runs, and graphs inside of others have no boundary.
        if aot_config.is_export or args_descs is None:
            return create_graph(f, args, args_descs, aot_config=aot_config)
        _C.take_recorded_draws()
        before = _C.exchange_traced_draws(_C.TracedDraws.Recorded)
        try:
            graph = create_graph(f, args, args_descs, aot_config=aot_config)
        finally:
            _C.exchange_traced_draws(before)
            draws = _C.take_recorded_draws()
        if draws.calls:
            _draws[aot_config.aot_id] = draws
        return graph

    replace(graph_capture, "_create_graph", recording)


def _keep_calls(partitioners):
    """Backward reads the call of a random draw that forward has made. It may compute the numbers of that call again."""
    force_save = partitioners.force_save_effectful_ops

    @functools.wraps(force_save)
    def force_save_calls(joint_module):
        import torch

        for node in joint_module.graph.find_nodes(op="call_function", target=torch.ops.weft.random_call.default):
            node.meta["recompute"] = partitioners.CheckpointPolicy.MUST_SAVE
        force_save(joint_module)

    replace(partitioners, "force_save_effectful_ops", force_save_calls)


def _keep_calls_in_programs(constant_folding):
    """Inductor would compute an operator without tensors once, while it compiles."""
    import torch

    constant_folding.add_dont_constant_fold(torch.ops.weft.random_call.default)


def _drop_what_forward_did(partitioners):
    """Programs for backward are given operators of forward again that only had to run once: the checks of values, and
    collectives of which backward uses nothing. The partitioner counts both as having effects."""
    extract = partitioners._extract_graph_with_inputs_outputs

    @functools.wraps(extract)
    def extract_graph(joint_graph, inputs, outputs, descriptions, subgraph=None, **options):
        graph = extract(joint_graph, inputs, outputs, descriptions, subgraph, **options)
        if subgraph == "backward":
            import torch

            ran = (torch.ops._c10d_functional.wait_tensor.default, torch.ops.aten._assert_async.msg)

            def has_effect(node):
                return node.is_impure() and not (node.target in ran and partitioners._has_tag_is_forward(node))

            graph.eliminate_dead_code(is_impure_node=has_effect)
        return graph

    replace(partitioners, "_extract_graph_with_inputs_outputs", extract_graph)


def _teach_partitioner(partitioners):
    _keep_calls(partitioners)
    _drop_what_forward_did(partitioners)


def _tell_memory_apart(collect_metadata_analysis):
    """AOTAutograd makes an output that shares memory with an argument anew, by as_strided of that argument. That is no way from a
    local tensor to a distributed one or back, nor from one layout to another. The program returns such outputs itself: local
    tensors that share the memory, with their gradients; C++ then makes them views (RegionMemory). Arguments that share memory
    with each other are still seen as such."""
    collect = collect_metadata_analysis.run_functionalized_fw_and_collect_metadata

    @functools.wraps(collect)
    def collect_apart(f, **options):
        @functools.wraps(f)
        def apart(*args):
            return _with_storages(args, f(*args))

        return collect(apart, **options)

    replace(collect_metadata_analysis, "run_functionalized_fw_and_collect_metadata", collect_apart)


def _with_storages(args, outputs):
    """The outputs; tensors that are seen to share memory share a storage."""
    import torch
    from torch.utils import _pytree

    from weft._trace.traced_tensor import TracedTensor

    def is_made(tensor):
        return isinstance(tensor, torch.Tensor) and not any(tensor is arg for arg in args)

    def apart(tensor):
        if not is_made(tensor) or not isinstance(tensor, TracedTensor):
            return tensor
        if tensor._base is not None:  # AOTAutograd asks for the base, and would call an operator on the result to hide it
            tensor = tensor.detach().requires_grad_(tensor.requires_grad)
        tensor._no_storage = torch.UntypedStorage(0)
        return tensor

    _check_shares_nothing_written(args, list(filter(is_made, _pytree.tree_leaves(outputs))))
    storages = {}  # by the address of the storage that local tensors share
    for tensor in args:
        if isinstance(tensor, TracedTensor):
            address = tensor.untyped_storage()._cdata
            tensor._no_storage = storages.setdefault(address, torch.UntypedStorage(0))
    return _pytree.tree_map(apart, outputs)


def _check_shares_nothing_written(args, outputs):
    """An argument gets its new values after the program has run, so that a view of it in the program is one of other memory."""
    import torch
    from torch._functorch._aot_autograd.functional_utils import has_data_mutation

    from weft._trace.traced_tensor import TracedTensor

    def memory(tensor):
        return tensor.untyped_storage()._cdata

    written = {memory(arg): arg for arg in args if isinstance(arg, torch.Tensor) and has_data_mutation(arg)}
    for output in outputs if written else ():
        arg = written.get(memory(output))
        if arg is not None and (isinstance(arg, TracedTensor) or isinstance(output, TracedTensor)):
            raise NotImplementedError(
                f"[torch.compile] a result with memory of its own is required where the function writes to an argument, but got one "
                f"of shape {tuple(output.shape)} that shares the memory of the argument of shape {tuple(arg.shape)}. Return its "
                "clone(), or the argument itself, and take the view outside of the compiled function."
            )


def _explain_compiled_autograd(_):
    import torch

    run = torch.autograd._engine_run_backward

    @functools.wraps(run)
    def run_backward(*args, **options):
        try:
            return run(*args, **options)
        except NotImplementedError as error:
            if "compiled_args" not in str(error) or not any(name in str(error) for name in ("weft::", "CppFunctionTensorPreHook")):
                raise
            raise NotImplementedError(
                "[torch.compile] a backward without compiled autograd is required for distributed tensors, whose gradients are "
                "reduced by hooks and functions of C++, but compiled autograd is on. Leave "
                "torch._dynamo.config.compiled_autograd off: torch.compile compiles backward without it."
            ) from error

    replace(torch.autograd, "_engine_run_backward", run_backward)


def install():
    when_imported("torch._dynamo.compiled_autograd", _explain_compiled_autograd)
    when_imported("torch._dynamo", _show_to_dynamo)
    when_imported("torch._subclasses.fake_tensor", _show_to_fake_mode)
    when_imported("torch._functorch._aot_autograd.runtime_wrappers", _cross_boundary)
    when_imported("torch._functorch._aot_autograd.collect_metadata_analysis", _tell_memory_apart)
    when_imported("torch._functorch._aot_autograd.graph_capture", _record_draws)
    when_imported("torch._functorch.partitioners", _teach_partitioner)
    when_imported("torch._inductor.constant_folding", _keep_calls_in_programs)
