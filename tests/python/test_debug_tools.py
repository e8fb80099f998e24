"""Scopes, explanations, counts of communication, pictures."""

import importlib.machinery
import sys
import types

import pytest
import torch
import weft
from torch import nn
from weft import Replicate, Shard


def on_mesh(program, ranks=2):
    return weft.run_on_ranks(ranks, lambda rank: program(weft.init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))))


def test_strict_refuses_hidden_communication():
    def program(mesh):
        x = weft.ones(4, 4, device_mesh=mesh, placements=[Shard(0)])
        y = weft.ones(4, 4, device_mesh=mesh, placements=[Shard(1)])
        with weft.strict():
            x + x
            with pytest.raises(ValueError, match="would communicate, which the strict scope forbids"):
                x + y
            with weft.strict(False):
                x + y
            x.redistribute(placements=[Replicate()])  # communication that is asked for is no error
        return (x + y).full_tensor()

    for total in on_mesh(program):
        assert torch.equal(total, torch.full((4, 4), 2.0))


def test_replicate_plain_takes_plain_tensors():
    def program(mesh):
        x = weft.ones(4, device_mesh=mesh, placements=[Shard(0)])
        with pytest.raises(ValueError, match="argument 'other' is a plain tensor"):
            torch.add(x, torch.arange(4.0))
        with weft.replicate_plain():
            return (x + torch.arange(4.0)).full_tensor()

    for total in on_mesh(program):
        assert total.tolist() == [1.0, 2.0, 3.0, 4.0]


def test_debug_names_the_rank_that_differs():
    def program(mesh):
        x = weft.ones(4, device_mesh=mesh, placements=[Shard(0)])
        with weft.debug():
            with pytest.raises(RuntimeError, match="rank 1"):
                x.exp() if mesh.get_rank() == 1 else x.sin()

    on_mesh(program)


def test_explain_says_how_an_operator_is_run():
    def program(mesh):
        x = weft.ones(4, 8, device_mesh=mesh, placements=[Shard(0)])
        w = nn.Parameter(weft.ones(6, 8, device_mesh=mesh, placements=[Shard(0)]))
        with weft.explain() as e:
            with weft.explain() as inner:
                torch.nn.functional.linear(x, w)
            x + x
        x * x
        assert [call.op for call in inner.calls] == ["aten::linear"]
        return e, str(e)

    for e, text in on_mesh(program):
        assert e.calls[-1].op == "aten::add.Tensor" and text == str(e)
    assert "aten::add.Tensor(f32[4,8] @ mesh(tp=2) {S(0)}, f32[4,8] @ mesh(tp=2) {S(0)})" in text


def test_an_explanation_has_its_parts():
    def program(mesh):
        x = weft.ones(4, 8, device_mesh=mesh, placements=[Shard(0)])
        w = nn.Parameter(weft.ones(6, 8, device_mesh=mesh, placements=[Shard(0)]))
        with weft.explain() as e:
            torch.nn.functional.linear(x, w)
        (call,) = e.calls
        assert call.inputs == ["f32[4,8] @ mesh(tp=2) {S(0)}", "f32[6,8] @ mesh(tp=2) {S(0)}"]
        assert call.strategy == "{R} {S(0)} -> {S(1)}" and call.plans == ["0: all_gather(tp: S(0) -> R)"]
        assert call.bytes == 64 and "rule" in call.why and str(call) in str(e)

    on_mesh(program)


class Block(nn.Module):
    def __init__(self, mesh):
        super().__init__()
        self.up = nn.Linear(8, 16, bias=False)
        self.down = nn.Linear(16, 8, bias=False)
        placements = {"up": [Shard(0)], "down": [Shard(1)]}
        for name, module in (("up", self.up), ("down", self.down)):
            module.weight = nn.Parameter(weft.zeros(module.weight.shape, device_mesh=mesh, placements=placements[name]))

    def forward(self, x):
        return self.down(torch.relu(self.up(x))).redistribute(placements=[Replicate()])


def test_comm_debug_counts_by_operator_and_module():
    def program(mesh):
        model = nn.Sequential(Block(mesh), Block(mesh))
        x = weft.ones(4, 8, device_mesh=mesh, requires_grad=True)
        with weft.comm_debug() as c:
            y = model(x)
        forward = c.by_module()
        with weft.comm_debug() as after:
            x + x
        assert after.calls == 0 and str(after).startswith("module")
        return forward, c.by_operator(), c.by_collective(), c.calls, c.bytes, y.shape

    for by_module, by_operator, by_collective, calls, received, _ in on_mesh(program):
        # One all_reduce of 4 x 8 floats at the end of each block.
        assert calls == 2 and received == 2 * 4 * 8 * 4
        assert by_module == {"Sequential.0": (1, 128), "Sequential.1": (1, 128)}
        assert list(by_collective) == ["all_reduce"] and list(by_operator.values()) == [(2, 256)]


def test_comm_debug_names_modules_in_backward():
    def program(mesh):
        model = nn.Sequential(Block(mesh), Block(mesh))
        x = weft.ones(4, 8, device_mesh=mesh, requires_grad=True)
        with weft.comm_debug() as c:
            y = model(x)
            loss = y.sum()
            forward_calls = c.calls
            loss.backward()
            x.grad.to_local()
        return forward_calls, c.by_module(), str(c)

    # Each block reduces its output, and in backward the gradient of its input, which for the first is a leaf's.
    for forward_calls, by_module, text in on_mesh(program):
        assert forward_calls == 2 and by_module == {"Sequential.0": (2, 256), "Sequential.1": (1, 128), "": (1, 128)}, text


def test_comm_debug_and_comm_debug_mode_leave_containers_alone_that_pytree_cannot_take_apart():
    """As transformers' caches for models that it does not export."""

    class Cache:
        pass

    def refuse(cache):
        raise RuntimeError("this cache is not exported")

    class WithCache(nn.Module):
        def __init__(self, mesh):
            super().__init__()
            self.block = Block(mesh)

        def forward(self, x, cache):
            return {"hidden": self.block(x), "cache": cache}

    torch.utils._pytree.register_pytree_node(Cache, refuse, lambda values, context: Cache())

    def program(mesh):
        x = weft.ones(4, 8, device_mesh=mesh, requires_grad=True)
        with weft.comm_debug() as c, weft.CommDebugMode() as mode:
            WithCache(mesh)(x, Cache())["hidden"].sum().backward()
        return c.by_module(), mode.get_total_counts()

    assert on_mesh(program) == [({"WithCache.block": (1, 128), "": (1, 128)}, 2)] * 2


def test_comm_debug_scopes_nest_and_modules_that_raise_are_left():
    class Raises(nn.Module):
        def forward(self, x):
            raise KeyError("no")

    def program(mesh):
        x = weft.ones(4, device_mesh=mesh, placements=[Shard(0)])
        with weft.comm_debug() as outer:
            with weft.comm_debug() as inner:
                with pytest.raises(KeyError):
                    Raises()(x)
                x.full_tensor()
            x.full_tensor()
        return outer.calls, inner.calls, inner.by_module()

    for outer, inner, modules in on_mesh(program):
        assert (outer, inner) == (2, 1) and list(modules) == [""]


def test_a_sharding_is_drawn_in_the_terminal(capsys):
    spec = weft.TensorSpec.parse("f32[8,16] @ mesh(dp=2,tp=2) {S(0), R}")
    picture = weft.visualize_sharding(spec)
    text = capsys.readouterr().out
    assert text.rstrip() == str(picture) and "0..3 │  0 1  │" in text
    assert picture._repr_svg_().startswith("<svg")

    def program(mesh):
        return str(weft.visualize_sharding(weft.ones(4, device_mesh=mesh, placements=[Shard(0)])))

    assert "2..3" in on_mesh(program)[0]


@pytest.mark.parametrize("use_rich", [False, True])
def test_the_first_rank_alone_prints_a_sharding_under_its_header(capsys, use_rich):
    def program(mesh):
        x = weft.ones(4, device_mesh=mesh, placements=[Shard(0)])
        return str(weft.visualize_sharding(x, header="the weight", use_rich=use_rich))

    pictures = on_mesh(program)
    text = capsys.readouterr().out
    assert text.count("the weight") == 1 and "2..3" in text and pictures[0] == pictures[1]


def test_rich_prints_a_sharding_where_it_is_installed(monkeypatch):
    printed = []
    rich, panel = types.ModuleType("rich"), types.ModuleType("rich.panel")
    rich.print, rich.box = printed.append, types.SimpleNamespace(SQUARE="square")
    panel.Panel = types.SimpleNamespace(fit=lambda text, title, box: (text, title, box))
    rich.__spec__ = importlib.machinery.ModuleSpec("rich", None)
    monkeypatch.setitem(sys.modules, "rich", rich)
    monkeypatch.setitem(sys.modules, "rich.panel", panel)
    picture = weft.visualize_sharding(weft.TensorSpec.parse("f32[8] @ mesh(tp=2) {S(0)}"), "x", use_rich=True)
    assert printed == [(str(picture), "x", "square")]


def test_a_sharding_is_an_image_in_a_notebook(monkeypatch, capsys):
    shown = []
    ipython = types.ModuleType("IPython")
    ipython.get_ipython = lambda: types.SimpleNamespace(kernel=None)
    display = types.ModuleType("IPython.display")
    display.display = shown.append
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    picture = weft.visualize_sharding(weft.TensorSpec.parse("f32[8] @ mesh(tp=2) {S(0)}"))
    assert shown == [picture] and capsys.readouterr().out == ""
