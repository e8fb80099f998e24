"""Collectives that overlap matmuls in programs that people have: graphs of fx, exported programs and what Inductor compiles."""

import copy
import os
import sys
from functools import partial

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.nn.functional as F
from functorch.compile import make_boxed_func
from torch import nn
from torch._guards import detect_fake_mode
from torch._inductor.compile_fx import compile_fx
from torch._inductor.fx_passes.post_grad import post_grad_passes, view_to_reshape
from torch._inductor.virtualized import V
from torch.distributed.tensor import parallel, Shard
from torch.fx.experimental.proxy_tensor import make_fx

sys.path.insert(0, os.path.dirname(os.path.dirname(__file__)))
from collective_patterns import gather, GROUP, inputs, PATTERNS

import weft

# The functional collectives are deprecated by name alone.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def fused_operators(graph):
    return [node for node in graph.nodes if str(node.target).startswith("weft.")]


def traced(run, *tensors):
    return make_fx(run, tracing_mode="fake")(*tensors)


def as_list(results):
    return list(results) if isinstance(results, (tuple, list)) else [results]


def assert_same(actual, expected):
    for one, other in zip(as_list(actual), as_list(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", PATTERNS)
def test_every_pattern_gives_what_it_gives_unfused(name):
    pattern = PATTERNS[name]
    tensors = inputs(dist.get_rank())
    module = traced(pattern.run, *tensors)
    with weft.explain() as explained:
        fused = weft.micro_pipeline(module, overlap="force")
    told = str(explained)
    assert told.count("): fused with") == pattern.fused, told
    assert pattern.why in told
    assert len(fused_operators(fused.graph)) == pattern.fused
    assert not fused_operators(module.graph)
    assert_same(fused(*tensors), module(*tensors))


def all_patterns(x, y, w, v, s):
    return [pattern.run(x, y, w, v, s) for pattern in PATTERNS.values() if pattern.run.__name__ not in NOT_FUNCTIONAL]


# Inductor's graphs write to no tensors: AOTAutograd has made copies of what is written.
NOT_FUNCTIONAL = ("gathered_from_memory_that_is_written",)


@pytest.fixture
def compiled():
    """Compiles by Inductor with the pass, and gives the lines that explain its decisions."""

    def compile(run, *inputs):
        """`run` compiles something; also what it gives."""
        torch._dynamo.reset()
        overlap = partial(weft.micro_pipeline_tp_pass, overlap="force")
        with weft.explain() as explained, torch._inductor.config.patch(post_grad_custom_post_pass=overlap):
            results = run(*inputs)
        return results, [line for line in str(explained).splitlines() if not line.startswith(" ")]

    return compile


def passes_alone(module, tensors):
    """Inductor's decompositions and passes, without the code that it writes for the rest, which takes long."""

    def run(graph_module, example_inputs, **_):
        view_to_reshape(graph_module)
        with V.set_fake_mode(detect_fake_mode(example_inputs)):
            post_grad_passes(graph_module, is_inference=True)
        graph_module.recompile()
        return make_boxed_func(graph_module.forward)

    return compile_fx(module, tensors, inner_compile=run)


def test_inductor_runs_the_pass_on_every_pattern(compiled):
    tensors = inputs(dist.get_rank())
    results, lines = compiled(torch.compile(all_patterns, fullgraph=True, backend=passes_alone), *tensors)
    for one, other in zip(results, all_patterns(*tensors), strict=True):
        assert_same(one, other)
    decided = sorted(pattern.fused for name, pattern in PATTERNS.items() if name not in NOT_FUNCTIONAL)
    assert sum("): fused with" in line for line in lines) >= 0.9 * sum(decided), "\n".join(lines)


def test_what_inductor_compiles_has_the_fused_operators(compiled):
    names = ("gathered_by_split_and_cat", "scattered_product_of_eight_bits", "a_layer_of_a_sequence_parallel_model")

    def run(*tensors):
        return [PATTERNS[name].run(*tensors) for name in names]

    tensors = inputs(dist.get_rank())
    results, lines = compiled(torch.compile(run, fullgraph=True), *tensors)
    for one, other in zip(results, run(*tensors), strict=True):
        assert_same(one, other)
    assert sum("): fused with" in line for line in lines) == 4, "\n".join(lines)


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


def test_a_model_on_dtensors_of_torch_trains_as_without_the_pass(compiled):
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
    model = FeedForward()
    plain = copy.deepcopy(model)
    plan = {
        "norm": parallel.SequenceParallel(),
        "up": parallel.ColwiseParallel(input_layouts=Shard(1)),
        "down": parallel.RowwiseParallel(output_layouts=Shard(1)),
    }
    parallel.parallelize_module(model, mesh, plan)
    whole = torch.randn(2, 8, 16)

    def step(run, x):
        out = run(x)
        out.square().sum().backward()
        return out.detach()

    mine = whole.chunk(2, 1)[dist.get_rank()].contiguous()
    out, lines = compiled(lambda run: step(torch.compile(run), mine), model)
    assert_same(out, step(plain, whole).chunk(2, 1)[dist.get_rank()])
    for own, other in zip(model.parameters(), plain.parameters(), strict=True):
        assert_same(own.grad.full_tensor(), other.grad)
    # Forward gathers for `up` and scatters for `down`, backward the other way round.
    assert sum("): fused with" in line for line in lines) == 4, lines


class Layer(nn.Module):
    """A sequence-parallel layer of a rank: gathers rows, and scatters the sum."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(16, 8, bias=False), nn.Linear(8, 16, bias=False)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls.add_(1)
        full = functional.all_gather_tensor(x, 0, dist.group.WORLD)
        return functional.reduce_scatter_tensor(self.down(F.relu(self.up(full))), "sum", 0, dist.group.WORLD), full


@pytest.mark.parametrize(("strict", "decomposed"), [(False, False), (True, True)])
def test_an_exported_program(tmp_path, strict, decomposed):
    x = torch.randn(4, 16)
    program = torch.export.export(Layer(), (x,), strict=strict, preserve_module_call_signature=("up", "down"))
    if decomposed:
        program = program.run_decompositions()
    before = str(program.graph)
    fused = weft.micro_pipeline(program, overlap="force")
    assert len(fused_operators(fused.graph)) == 2 and str(program.graph) == before
    assert all(fused.state_dict[name] is tensor for name, tensor in program.state_dict.items())
    torch.export.save(fused, tmp_path / "fused.pt2")
    loaded = torch.export.load(tmp_path / "fused.pt2")
    assert [entry.fqn for entry in fused.module_call_graph if entry.signature is not None] == [""]
    for each in (fused, loaded):
        module = each.module()
        calls = module.calls.item()
        results = module(x)
        assert module.calls == calls + 1
        assert_same(results, program.module()(x))


def test_a_batch_of_any_size():
    x = torch.randn(6, 16)
    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Layer(), (x,), dynamic_shapes={"x": {0: batch}})
    fused = weft.micro_pipeline(program, overlap="force")
    assert len(fused_operators(fused.graph)) == 2
    for rows in (6, 9):
        x = torch.randn(rows, 16)
        assert_same(fused.module()(x), program.module()(x))


def test_a_group_may_have_a_mode_of_its_own():
    module = traced(PATTERNS["gathered_rows"].run, *inputs(0))
    for options in ({"overlap": "off"}, {"overlap": "force", "groups": {dist.group.WORLD: "off"}}, {"groups": {GROUP: "auto"}}):
        assert not fused_operators(weft.micro_pipeline(module, **options).graph)
    assert fused_operators(weft.micro_pipeline(module, overlap="off", groups={GROUP: "force"}).graph)


def test_by_the_rates_it_is_fused_where_it_pays():
    def run(x, w):
        return torch.mm(gather(x), w)

    module = traced(run, torch.empty(1024, 1024), torch.empty(1024, 1024))
    for link, is_fused in (("50us,125MB/s", True), ("1us,1TB/s", False)):
        with weft.explain() as explained:
            fused = weft.micro_pipeline(module, link=link, compute="100Gflop/s,25GB/s,2us")
        assert bool(fused_operators(fused.graph)) == is_fused, explained
        assert ("gains" in str(explained)) == is_fused


def test_rates_that_are_not_given_are_those_of_the_group():
    def run(x, w):
        return torch.mm(gather(x), w)

    module = traced(run, torch.empty(1024, 1024), torch.empty(1024, 1024))
    options = {name.lower(): os.environ[f"WEFT_{name}"] for name in ("LINK", "COMPUTE") if f"WEFT_{name}" in os.environ}
    texts = []
    for given in ({}, options):
        with weft.explain() as explained:
            weft.micro_pipeline(module, **given)
        texts.append(str(explained))
    assert texts[0] == texts[1] and " takes " in texts[0]


def test_ranks_of_other_programs_agree_on_what_all_of_them_can_fuse():
    tensors = inputs(dist.get_rank())
    names = ("gathered_rows", "gathered_for_no_matmul")
    module = traced(PATTERNS[names[dist.get_rank()]].run, *tensors)
    with weft.explain() as explained:
        fused = weft.micro_pipeline(module, overlap="force")
    assert not fused_operators(fused.graph)
    assert ("not all members of its group can fuse it", "no matmul takes what is gathered")[dist.get_rank()] in str(explained)
    assert_same(fused(*tensors), module(*tensors))


def test_ranks_of_uneven_shards_decide_alike():
    def run(x, w):
        return torch.mm(gather(x), w)

    columns = (1024, 16)[dist.get_rank()]
    module = traced(run, torch.empty(1024, 1024), torch.empty(1024, columns))
    rates = {"link": "50us,125MB/s", "compute": "100Gflop/s,25GB/s,2us"}
    with weft.explain() as explained:
        fused = weft.micro_pipeline(module, **rates)
    # One rank would gain by it, the other not.
    assert not fused_operators(fused.graph)
    assert ("not all members of its group can fuse it" in str(explained)) == (dist.get_rank() == 0)


# Of a product whose sizes are all symbols, two would have to be stated in a view.
@pytest.mark.parametrize(("mode", "count"), [("real", 2), ("fake", 2), ("symbolic", 1)])
def test_graphs_of_every_way_to_trace(mode, count):
    tensors = inputs(dist.get_rank())
    run = PATTERNS["a_layer_of_a_sequence_parallel_model"].run
    module = make_fx(run, tracing_mode=mode)(*tensors)
    fused = weft.micro_pipeline(module, overlap="force")
    assert len(fused_operators(fused.graph)) == count
    assert_same(fused(*tensors), module(*tensors))


def test_what_passes_do_not_know_stays_where_it_is():
    def opaque(x):
        return x * 2

    module = traced(PATTERNS["gathered_rows"].run, *inputs(dist.get_rank()))
    (product,) = [node for node in module.graph.nodes if "mm" in str(node.target)]
    with module.graph.inserting_after(product):
        call = module.graph.call_function(opaque, (product,))
        call.meta["val"] = product.meta["val"]
    module.graph.output_node().args = (call,)
    module.recompile()
    fused = weft.micro_pipeline(module, overlap="force")
    assert len(fused_operators(fused.graph)) == 1
    assert_same(fused(*inputs(dist.get_rank())), module(*inputs(dist.get_rank())))


def test_wrong_arguments_are_told():
    with pytest.raises(TypeError, match="an ExportedProgram or a GraphModule is required, but got Linear"):
        weft.micro_pipeline(nn.Linear(2, 2))
    module = torch.fx.symbolic_trace(lambda x: torch.ops.aten.relu.default(x))
    with pytest.raises(ValueError, match=r'must have a fake value in its meta\["val"\], but got none for %relu_default'):
        weft.micro_pipeline(module)
    with pytest.raises(ValueError, match="one of 'auto', 'off' and 'force' is required"):
        weft.micro_pipeline(traced(torch.relu, torch.ones(2)), overlap="sometimes")
