"""Exported programs read and written again by C++ are what they were to torch.export."""

import collections
import json
import zipfile

import pytest
import torch
from torch import nn

import weft

Batch = torch.export.Dim("batch", min=2, max=64)
Pair = collections.namedtuple("Pair", ["first", "second"])
torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="test_pt2.Pair")


class Stack(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 6), nn.GELU(approximate="tanh"), nn.Linear(6, 4, bias=False))

    def forward(self, x):
        return self.layers(x) + self.layers(x * 0.5)


class Nested(nn.Module):
    def forward(self, pair, *, options):
        a, (b, rest) = pair
        return {"sum": a + b, "scaled": [rest["c"] * options["scale"], None, 3, "text"[0:0] or 2.5]}, Pair(a, b)


class Counter(nn.Module):
    """A buffer that every call updates, and one that is not part of the state dict."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(2))
        self.register_buffer("table", torch.arange(3.0), persistent=False)

    def forward(self, x):
        self.calls.add_(1)
        return x * self.table + self.calls.sum()


class UpdatesInput(nn.Module):
    def forward(self, x, y):
        y.mul_(2)
        return x + y


class Constants(nn.Module):
    """Lifted tensors, sizes and dtypes as arguments, an index with gaps, infinity, a region without gradients."""

    def forward(self, x):
        with torch.no_grad():
            mask = torch.full(x.shape, float("-inf"), dtype=x.dtype).triu(1)
        offset = torch.tensor([1.0, 2.0, 3.0])
        picked = (x + mask.exp() + offset)[:, None, torch.tensor([2, 0])]
        return picked.to(torch.float64), torch.zeros_like(x, memory_format=torch.contiguous_format, device="cpu")


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        return self.head(self.embedding(tokens))


class Dynamic(nn.Module):
    def forward(self, x):
        batch, length, width = x.shape
        halves = x.view(batch, length, 2, width // 2).transpose(1, 2)
        scale = (batch * length) ** 0.5
        return halves.reshape(batch * 2, length, width // 2) * batch, x.new_zeros(batch + 1, 3) + scale, batch * 2 - 1


class Numbers(nn.Module):
    def forward(self, x, count, scale, text, nothing, flag):
        return x[:count] * scale, count + 1, flag


class Several(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(4, 5, num_layers=2, batch_first=True)

    def forward(self, x):
        out, (hidden, cell) = self.lstm(x)
        values, places = torch.topk(out, 2)
        first, second = out.split([2, 3], dim=-1)
        return values, places, first, second.contiguous(), hidden, cell, *torch.unbind(out, 1)


class Slices(nn.Module):
    """Parameters that are views of one memory, one of them not contiguous."""

    def __init__(self):
        super().__init__()
        whole = torch.randn(6, 4)
        self.register_buffer("whole", whole)
        self.register_buffer("rows", whole[2:4])
        self.register_buffer("turned", torch.randn(3, 4).t())
        self.register_buffer("spread", torch.randn(4, 8)[:, ::2])
        self.register_buffer("empty", torch.zeros(0, 3))

    def forward(self, x):
        return x @ self.whole.t(), x + self.rows, x @ self.turned, x @ self.spread, self.empty + 1


class Convolution(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(2, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)

    def forward(self, x):
        return nn.functional.max_pool2d(self.norm(self.convolution(x)), 2)


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8).to(torch.bfloat16)

    def forward(self, x):
        query = self.linear(x).view(2, 3, 2, 4).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(query, query, query, is_causal=True)


def x(*sizes):
    return torch.randn(*sizes)


CASES = {
    "stack": lambda: (Stack(), (x(3, 4),), {}, {}),
    "stack_dynamic": lambda: (Stack(), (x(3, 4),), {}, {"dynamic_shapes": {"x": {0: Batch}}}),
    "nested": lambda: (Nested(), ((x(2), (x(2), {"c": x(3)})),), {"options": {"scale": x(1)}}, {}),
    "counter": lambda: (Counter(), (x(2, 3),), {}, {}),
    "updates_input": lambda: (UpdatesInput(), (x(3), x(3)), {}, {}),
    "constants": lambda: (Constants(), (x(3, 3),), {}, {}),
    "tied": lambda: (Tied(), (torch.randint(7, (2, 3)),), {}, {}),
    "dynamic": lambda: (Dynamic(), (x(3, 5, 8),), {}, {"dynamic_shapes": {"x": {0: Batch, 1: torch.export.Dim("length")}}}),
    "numbers": lambda: (Numbers(), (x(5), 3, 0.5, "a", None, True), {}, {}),
    "several": lambda: (Several(), (x(2, 3, 4),), {}, {}),
    "slices": lambda: (Slices(), (x(2, 4),), {}, {}),
    "convolution_training": lambda: (Convolution().train(), (x(2, 2, 6, 6),), {}, {}),
    "convolution_inference": lambda: (Convolution().eval(), (x(2, 2, 6, 6),), {}, {}),
    "half": lambda: (Half(), (x(2, 3, 8).to(torch.bfloat16),), {}, {}),
}


def leaves(tree):
    return torch.utils._pytree.tree_flatten(tree)


def check_same(actual, expected):
    actual_leaves, actual_spec = leaves(actual)
    expected_leaves, expected_spec = leaves(expected)
    assert actual_spec == expected_spec
    for a, b in zip(actual_leaves, expected_leaves, strict=True):
        if isinstance(b, torch.Tensor):
            assert a.dtype == b.dtype and torch.equal(a, b)
        else:
            assert a == b


def clone(tree):
    return torch.utils._pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, tree)


def run(program, arguments, keywords):
    """What it gives, and what is in its arguments and buffers after two calls."""
    arguments, keywords = clone(arguments), clone(keywords)
    module = program.module()
    with torch.no_grad():
        results = [clone(module(*arguments, **keywords)) for _ in range(2)]
    return results, arguments, {name: buffer.clone() for name, buffer in module.named_buffers()}


@pytest.mark.parametrize("decomposed", [False, True], ids=["exported", "decomposed"])
@pytest.mark.parametrize("strict", [False, True], ids=["nonstrict", "strict"])
@pytest.mark.parametrize("case", CASES)
def test_a_program_written_again_gives_the_same(case, strict, decomposed, tmp_path):
    torch.manual_seed(0)
    module, arguments, keywords, options = CASES[case]()
    program = torch.export.export(module, clone(arguments), clone(keywords), strict=strict, **options)
    if decomposed:
        program = program.run_decompositions()
    torch.export.save(program, tmp_path / "in.pt2")
    weft._C.rewrite_pt2(str(tmp_path / "in.pt2"), str(tmp_path / "out.pt2"))
    again = torch.export.load(tmp_path / "out.pt2")
    check_same(run(again, arguments, keywords), run(torch.export.load(tmp_path / "in.pt2"), arguments, keywords))
    assert again.graph_signature.inputs_to_parameters == program.graph_signature.inputs_to_parameters
    assert again.graph_signature.inputs_to_buffers == program.graph_signature.inputs_to_buffers
    assert again.range_constraints.keys() == program.range_constraints.keys()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.pt2", "out.pt2"]
    # Written a third time it is the same text.
    weft._C.rewrite_pt2(str(tmp_path / "out.pt2"), str(tmp_path / "again.pt2"))
    assert model_text(tmp_path / "again.pt2") == model_text(tmp_path / "out.pt2")


def model_text(path):
    with zipfile.ZipFile(path) as file:
        return json.loads(file.read("archive/models/model.json"))


def test_other_sizes_than_exported_with_run_after_writing(tmp_path):
    module, arguments, _, options = CASES["dynamic"]()
    torch.export.save(torch.export.export(module, arguments, **options), tmp_path / "in.pt2")
    weft._C.rewrite_pt2(str(tmp_path / "in.pt2"), str(tmp_path / "out.pt2"))
    again = torch.export.load(tmp_path / "out.pt2").module()
    check_same(again(other := x(7, 2, 8)), module(other))
    with pytest.raises(Exception, match="65|64"):
        again(x(65, 2, 8))


def test_tied_weights_and_views_stay_tied(tmp_path):
    for case, names in (("tied", ("embedding.weight", "head.weight")), ("slices", ("whole", "rows"))):
        module, arguments, _, _ = CASES[case]()
        torch.export.save(torch.export.export(module, arguments), tmp_path / "in.pt2")
        weft._C.rewrite_pt2(str(tmp_path / "in.pt2"), str(tmp_path / "out.pt2"))
        state = torch.export.load(tmp_path / "out.pt2").state_dict
        first, second = (state[name].untyped_storage().data_ptr() for name in names)
        assert first == second


def test_a_program_without_a_calling_convention_is_called_with_its_inputs_one_by_one(tmp_path):
    module, arguments, keywords, _ = CASES["nested"]()
    torch.export.save(torch.export.export(module, arguments, keywords), tmp_path / "in.pt2")
    with zipfile.ZipFile(tmp_path / "in.pt2") as file:
        records = {name: file.read(name) for name in file.namelist()}
    model = json.loads(records["in/models/model.json"])
    model["graph_module"]["module_call_graph"] = []
    records["in/models/model.json"] = json.dumps(model).encode()
    with zipfile.ZipFile(tmp_path / "bare.pt2", "w") as file:
        for name, data in records.items():
            file.writestr(name, data)
    weft._C.rewrite_pt2(str(tmp_path / "bare.pt2"), str(tmp_path / "out.pt2"))
    flat = torch.export.load(tmp_path / "out.pt2").module()(*leaves((arguments, keywords))[0])
    expected = leaves(module(*arguments, **keywords))[0]
    assert isinstance(flat, tuple)
    for a, b in zip(flat, expected, strict=True):
        assert torch.equal(a, b) if isinstance(b, torch.Tensor) else a == b


def test_collectives_are_functional_operators(tmp_path):
    class Reduces(nn.Module):
        def forward(self, x):
            functional = torch.ops._c10d_functional
            return functional.wait_tensor(functional.all_reduce(x, "sum", "dp,tp")) + 1

    torch.export.save(torch.export.export(Reduces(), (x(3),)), tmp_path / "in.pt2")
    weft._C.rewrite_pt2(str(tmp_path / "in.pt2"), str(tmp_path / "out.pt2"))
    nodes = torch.export.load(tmp_path / "out.pt2").graph.nodes
    called = [(node.target, node.args[1:]) for node in nodes if node.op == "call_function"]
    assert called[0] == (torch.ops._c10d_functional.all_reduce.default, ("sum", "dp,tp"))
    assert called[1][0] == torch.ops._c10d_functional.wait_tensor.default


def test_the_file_is_an_ordinary_zip_file_whose_weights_are_aligned(tmp_path):
    torch.export.save(torch.export.export(Stack(), (x(3, 4),)), tmp_path / "in.pt2")
    weft._C.rewrite_pt2(str(tmp_path / "in.pt2"), str(tmp_path / "out.pt2"))
    with zipfile.ZipFile(tmp_path / "out.pt2") as file:
        assert file.testzip() is None
        for entry in file.infolist():
            assert entry.compress_type == zipfile.ZIP_STORED
    reader = torch._C.PyTorchFileReader(str(tmp_path / "out.pt2"))
    assert reader.get_record_offset("data/weights/weight_0") % 64 == 0


def test_a_file_that_is_none_says_so(tmp_path):
    path = tmp_path / "none.pt2"
    path.write_bytes(b"no zip file at all, though it is long enough for one")
    with pytest.raises(ValueError, match=r"\[read_pt2\] .*none.pt2: a zip file is required"):
        weft._C.rewrite_pt2(str(path), str(tmp_path / "out.pt2"))
    with pytest.raises(ValueError, match=r"cannot be opened: No such file"):
        weft._C.rewrite_pt2(str(tmp_path / "absent.pt2"), str(tmp_path / "out.pt2"))


def test_higher_order_operators_are_named(tmp_path):
    class Branches(nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    torch.export.save(torch.export.export(Branches(), (x(3),)), tmp_path / "in.pt2")
    with pytest.raises(NotImplementedError, match="higher_order.cond is not supported"):
        weft._C.rewrite_pt2(str(tmp_path / "in.pt2"), str(tmp_path / "out.pt2"))
