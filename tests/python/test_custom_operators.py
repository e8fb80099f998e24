"""Operators of other libraries on distributed tensors: replicated, by registered rules, with autograd, and their errors."""

import os
import sys

import pytest
import torch
import weft

sys.path.insert(0, os.path.dirname(__file__))
from exported_models.sharding import OPERATOR_LIBRARY  # noqa: E402
from weft import Partial, Replicate, Shard

aten = torch.ops.aten
LIBRARY = torch.library.Library("weft_custom", "FRAGMENT")


def numpy_double(x):
    return torch.from_numpy(x.detach().numpy() * 2)  # needs a plain tensor with memory


@torch.library.custom_op("weft_custom::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return numpy_double(x)


@double.register_fake
def _(x):
    return torch.empty_like(x)


double.register_autograd(lambda ctx, grad: double(grad))


@torch.library.custom_op("weft_custom::softmax", mutates_args=())
def softmax(x: torch.Tensor, dim: int, scale: float = 1.0) -> torch.Tensor:
    return torch.softmax(x * scale, dim)


@softmax.register_fake
def _(x, dim, scale=1.0):
    return torch.empty_like(x)


@torch.library.custom_op("weft_custom::matmul", mutates_args=())
def matmul(a: torch.Tensor, b: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    product = torch.from_numpy(a.numpy() @ b.numpy())
    return product if bias is None else product + bias


@matmul.register_fake
def _(a, b, bias=None):
    return a.new_empty(a.shape[0], b.shape[1])


@torch.library.custom_op("weft_custom::add_one", mutates_args=("x",))
def add_one(x: torch.Tensor) -> None:
    x.numpy()[...] += 1


LIBRARY.define("triple(Tensor x) -> Tensor")
LIBRARY.impl("triple", lambda x: torch.from_numpy(x.numpy() * 3), "CPU")
LIBRARY.define("scale_(Tensor(a!) x, float by) -> Tensor(a!)")
LIBRARY.impl("scale_", lambda x, by: x.copy_(torch.from_numpy(x.numpy() * by)), "CPU")
LIBRARY.define("composite(Tensor x) -> Tensor")
LIBRARY.impl("composite", lambda x: x.sin().cos(), "CompositeImplicitAutograd")
LIBRARY.define("noise(Tensor x) -> Tensor", tags=[torch.Tag.nondeterministic_seeded])
LIBRARY.impl("noise", lambda x: x + torch.rand_like(x), "CPU")
LIBRARY.define("noise_of(Tensor x, *, Generator? generator=None) -> Tensor", tags=[torch.Tag.nondeterministic_seeded])
LIBRARY.impl("noise_of", lambda x, generator=None: x + torch.rand(x.shape, generator=generator), "CPU")
LIBRARY.define("doubled_rows(Tensor x) -> Tensor")
LIBRARY.impl("doubled_rows", lambda x: x.repeat(2, 1), "CPU")
LIBRARY.impl("doubled_rows", lambda x: x.new_empty(2 * x.shape[0], x.shape[1]), "Meta")

OPS = torch.ops.weft_custom


@pytest.fixture
def no_rules():
    yield
    ops = [*(getattr(OPS, name) for name in ("double", "softmax", "matmul", "add_one", "triple", "doubled_rows"))]
    weft.unregister_sharding([*ops, aten._softmax.default, aten.min.dim_min, aten.mul.Tensor])


def on_ranks(program, size=2, shape=None):
    """The result of rank 0 of a program that is given a mesh."""

    def rank_program(rank):
        return program(weft.init_device_mesh("cpu", shape or (size,)))

    return weft.run_on_ranks(size, rank_program)[0]


def distributed(x, mesh, *placements):
    return weft.distribute_tensor(x, mesh, list(placements))


X = torch.arange(24.0).reshape(4, 6)


@pytest.mark.parametrize("placement", [Shard(0), Shard(1), Replicate(), Partial()])
@pytest.mark.parametrize("op, plain", [(double, X * 2), (OPS.triple, X * 3)])
def test_without_a_rule_operands_are_replicated(op, plain, placement):
    def program(mesh):
        x = distributed(X, mesh, Replicate()).redistribute(placements=[placement])
        with weft.explain() as e, weft.comm_debug() as c:
            y = op(x)
        assert y.placements == (Replicate(),)
        assert c.calls == (0 if placement == Replicate() else 1)
        assert "no rule for this operator" in str(e)
        return y.to_local()

    torch.testing.assert_close(on_ranks(program), plain)


@pytest.mark.parametrize("placement", [Replicate(), Shard(0), Shard(1)], ids=str)
def test_operators_of_a_library_in_cpp(placement):
    """One with a rule that the library registers, one without."""
    torch.ops.load_library(OPERATOR_LIBRARY)
    ops, by = torch.ops.weft_test_library, torch.randn(6)

    def program(mesh):
        x, scale = distributed(X, mesh, placement), distributed(by, mesh, Replicate())
        with weft.comm_debug() as seen:
            scaled = ops.scaled(x, scale)
        assert scaled.placements == (placement,) and seen.calls == 0
        turned = ops.reversed(x)
        assert turned.placements == (Replicate(),)
        return scaled.full_tensor(), turned.full_tensor()

    scaled, turned = on_ranks(program)
    torch.testing.assert_close(scaled, X * by)
    torch.testing.assert_close(turned, X.flip(-1))


def test_operators_that_are_defined_while_tensors_exist():
    def program(mesh):
        return distributed(X, mesh, Shard(0))

    on_ranks(program)
    LIBRARY.define("late(Tensor x) -> Tensor")
    LIBRARY.impl("late", numpy_double, "CPU")

    @torch.library.custom_op("weft_custom::later", mutates_args=())
    def later(x: torch.Tensor) -> torch.Tensor:
        return numpy_double(x)

    def late_program(mesh):
        x = distributed(X, mesh, Shard(0))
        return OPS.late(x).to_local(), later(x).to_local()

    for got in on_ranks(late_program):
        torch.testing.assert_close(got, X * 2)


def test_operators_that_write_to_an_argument():
    def program(mesh):
        x = distributed(X.clone(), mesh, Shard(1))
        add_one(x)
        y = OPS.scale_(x, 2.0)
        assert y is x and x.placements == (Shard(1),)
        return x.full_tensor()

    torch.testing.assert_close(on_ranks(program), (X + 1) * 2)


def test_composite_operators_run_as_what_they_call():
    def program(mesh):
        x = distributed(X, mesh, Shard(0)).requires_grad_()
        with weft.strict():
            y = OPS.composite(x)
        assert y.placements == (Shard(0),)
        y.sum().backward()
        return y.full_tensor(), x.grad.full_tensor()

    y, gradient = on_ranks(program)
    torch.testing.assert_close(y, X.sin().cos())
    torch.testing.assert_close(gradient, -X.sin().sin() * X.cos())


@pytest.mark.parametrize("placement", [Shard(0), Replicate()])
def test_register_autograd(placement):
    def program(mesh):
        x = distributed(X, mesh, placement).requires_grad_()
        (double(x) * distributed(X, mesh, Shard(1))).sum().backward()
        return x.grad.full_tensor()

    torch.testing.assert_close(on_ranks(program), 2 * X)


def test_random_operators_need_a_generator():
    def program(mesh):
        x = distributed(X, mesh, Replicate())
        with pytest.raises(NotImplementedError, match=r"\[weft_custom::noise\] draws random numbers .* would differ between ranks"):
            OPS.noise(x)
        return OPS.noise_of(x).to_local()

    noisy = [weft.run_on_ranks(2, lambda rank: program(weft.init_device_mesh("cpu", (2,)))) for _ in range(1)][0]
    torch.testing.assert_close(noisy[0], noisy[1], rtol=0, atol=0)


def test_collectives_of_torch_are_refused():
    def program(mesh):
        x = distributed(X, mesh, Shard(0))
        with pytest.raises(NotImplementedError, match="collectives of torch.distributed take plain tensors, but got f32"):
            torch.ops._c10d_functional.all_reduce(x, "sum", "0")

    on_ranks(program)


def softmax_sharding(x, dim, scale):
    assert x.ndim == len(x.shape) and x.dtype == torch.float32
    return [([Shard(d)], [Shard(d), None, None]) for d in range(x.ndim) if d != dim % x.ndim]


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("sharded", [0, 1])
def test_a_function_lists_strategies(no_rules, dim, sharded):
    weft.register_sharding(softmax)(softmax_sharding)

    def program(mesh):
        with weft.explain() as e:
            y = softmax(distributed(X, mesh, Shard(sharded)), dim)
        keeps = dim % 2 != sharded
        assert y.placements == ((Shard(sharded),) if keeps else (Shard(1 - sharded),)) or y.placements == (Replicate(),)
        assert "by the registered rule strategies={S(" in str(e)
        return y.full_tensor()

    torch.testing.assert_close(on_ranks(program), X.softmax(dim))


def test_functions_and_torch_agree_over_two_mesh_dims(no_rules):
    weft.register_sharding(softmax)(softmax_sharding)
    x = torch.randn(4, 6, 8)

    def program(mesh):
        with weft.strict():
            y = softmax(distributed(x, mesh, Shard(0), Shard(2)), 1)
        assert y.placements == (Shard(0), Shard(2))
        return y.full_tensor()

    torch.testing.assert_close(on_ranks(program, 4, (2, 2)), x.softmax(1))


def test_shards_of_different_sizes_are_gathered_for_listed_strategies(no_rules):
    weft.register_sharding(softmax)(softmax_sharding)
    x = torch.randn(5, 6)

    def program(mesh):
        return softmax(distributed(x, mesh, Shard(0)), 1).full_tensor()

    torch.testing.assert_close(on_ranks(program), x.softmax(1))


def test_a_text_serves_shards_of_different_sizes(no_rules):
    weft.register_sharding(softmax, "([...,a])->([...,a]) unsharded={a}")
    x = torch.randn(5, 3, 6)

    def program(mesh):
        with weft.strict():
            y = softmax(distributed(x, mesh, Shard(0)), -1)
        assert y.placements == (Shard(0),)
        return y.full_tensor()

    torch.testing.assert_close(on_ranks(program, 4), x.softmax(-1))


@pytest.mark.parametrize("a, b, want", [(Shard(1), Shard(0), Partial()), (Shard(0), Replicate(), Shard(0)), (Replicate(), Shard(1), Shard(1))])
def test_a_text_with_a_sum(no_rules, a, b, want):
    weft.register_sharding(matmul, "([m,k],[k,n],[n])->([m,n]) sum={k} added={2} linear={0,2}{1,2}")
    y = torch.randn(6, 5)

    def program(mesh):
        with weft.strict():
            product = matmul(distributed(X, mesh, a), distributed(y, mesh, b))
        assert product.placements == (want,)
        return product.full_tensor()

    torch.testing.assert_close(on_ranks(program), X @ y)


def test_rules_are_replaced_and_removed(no_rules):
    def program(mesh):
        return double(distributed(X, mesh, Shard(0))).placements[0]

    assert on_ranks(program) == Replicate()
    weft.register_sharding(double, "([a,b])->([a,b])")
    assert on_ranks(program) == Shard(0)
    weft.register_sharding(double, "([-,b])->([-,b])")
    assert on_ranks(program) != Shard(0)
    assert weft.unregister_sharding(double)
    assert on_ranks(program) == Replicate()
    assert not weft.unregister_sharding(double)


def test_a_changed_rule_reaches_a_thread_that_has_called_before(no_rules):
    def program(mesh):
        x = distributed(X, mesh, Shard(0))
        before = double(x).placements[0]
        weft.register_sharding(double, "([a,b])->([a,b])")
        return before, double(x).placements[0]

    assert on_ranks(program, size=1) == (Replicate(), Shard(0))


def test_rules_may_read_numbers(no_rules):
    @weft.register_sharding(softmax)
    def _(x, dim, scale):
        return [([Shard(0)], [Shard(0), None, None])] if scale == 1.0 else []

    def program(mesh):
        x = distributed(X, mesh, Shard(0))
        return softmax(x, 1, 1.0).placements[0], softmax(x, 1, 2.0).placements[0]

    assert on_ranks(program) == (Shard(0), Replicate())


def test_rules_for_operators_of_aten(no_rules):
    @weft.register_sharding(aten._softmax.default)
    def _(x, dim, half_to_float):
        return [([Replicate()], [Replicate(), None, None])]

    def program(mesh):
        return torch.softmax(distributed(X, mesh, Shard(0)), 1).placements[0]

    assert on_ranks(program) == Replicate()
    weft.unregister_sharding(aten._softmax.default)
    assert on_ranks(program) == Shard(0)


def test_rules_for_out_arguments(no_rules):
    @weft.register_sharding(aten.min.dim_min)
    def _(x, dim, keepdim, min, min_indices):
        return [([Replicate(), Replicate()], [Replicate(), None, None, Replicate(), Replicate()])]

    def program(mesh):
        out = (distributed(torch.zeros(4, 1), mesh, Replicate()), distributed(torch.zeros(4, 1).long(), mesh, Replicate()))
        torch.min(distributed(X, mesh, Replicate()), dim=1, keepdim=True, out=out)
        return out[0].to_local(), out[1].to_local()

    values, indices = on_ranks(program)
    torch.testing.assert_close((values, indices), tuple(X.min(1, keepdim=True)))


def test_sizes_without_a_meta_kernel_are_not_guessed(no_rules):
    @weft.register_sharding(OPS.triple)
    def _(x):
        return [([Shard(0)], [Shard(0)])]

    def program(mesh):
        with weft.explain() as e:
            y = OPS.triple(distributed(X, mesh, Shard(0)))
        assert "not known without a meta kernel (torch.library.register_fake)" in str(e)
        return y.full_tensor()

    torch.testing.assert_close(on_ranks(program), X * 3)
    weft.register_sharding(OPS.triple, "([a,b])->([a,b])")

    def sized(mesh):
        y = OPS.triple(distributed(X, mesh, Shard(0)))
        assert y.placements == (Shard(0),)
        return y.full_tensor()

    torch.testing.assert_close(on_ranks(sized), X * 3)


def test_results_of_another_shape_than_the_rule_says(no_rules):
    @weft.register_sharding(OPS.doubled_rows)
    def _(x):
        return [([Shard(1)], [Shard(0)])]

    def program(mesh):
        with pytest.raises(ValueError, match=r"result 0 must be f32\[8,6\] .* but the operator gave \[4, 6\]. Correct the rule; weft.check_rule"):
            OPS.doubled_rows(distributed(X, mesh, Shard(0)))

    on_ranks(program)


@pytest.mark.parametrize(
    "rule, text",
    [
        ("([a,b]->([a,b])", r"expected '\)' at column 7"),
        ("([a,b],[b])->([a,b])", r"1 inputs are required for weft_custom::double\(Tensor x\) -> Tensor, but got 2"),
        ("([a,b])->([a,b],[a])", "1 outputs are required"),
        ("([a,b])->([a])", r"a factor that no output has must be listed, but got 'b' .* Add sum=\{b\}"),
        ("([a,b])->([a,c])", "a factor of an output must be one of an input, but got 'c'"),
        ("([a,a])->([a,a])", "a factor may occur once in a tensor, but got 'a' twice"),
        ("([a,b])->([a,b]) linear={1}", "the number of an input below 1 is required, but got 1"),
        ("([a,b])->([a,b]) size=[a,b]", "the name of an argument that states sizes is required before '=', but got 'size'"),
        ("([a,b])->([a,b]) unsharded={c}", "a listed factor must be one of an input, but got 'c'"),
    ],
)
def test_texts_that_are_wrong(rule, text):
    with pytest.raises(ValueError, match=text):
        weft.register_sharding(double, rule)


@pytest.mark.parametrize(
    "strategies, text",
    [
        ([([Shard(0)], [])], "as many input placements as tensors, 1, are required"),
        ([([], [Shard(0)])], "as many output placements as results, 1, are required"),
        ([([Shard(0)], [Shard(2)])], "a shard dim of input 0 that the tensor has, of 2 dims, is required"),
        ([([Shard(5)], [Shard(0)])], r"\[weft_custom::double\] a shard dim of output 0 that the tensor has, of 2 dims, is required, but got S\(5\)"),
        ([[Shard(0)]], "a pair of output and input placements is required"),
        (3, "TypeError"),
        ([(["S(0)"], [Shard(0)])], "placement"),
    ],
)
def test_functions_that_are_wrong(no_rules, strategies, text):
    @weft.register_sharding(double)
    def _(x):
        return strategies

    def program(mesh):
        with pytest.raises((ValueError, TypeError, IndexError), match=text):
            double(distributed(X, mesh, Shard(0)))

    on_ranks(program)


def test_operators_that_are_unknown():
    with pytest.raises(ValueError, match=r"\[register_sharding\] the name of a known operator is required, but got 'mylib::none'"):
        weft.register_sharding("mylib::none", "([a])->([a])")
    with pytest.raises(TypeError, match=r"\[register_sharding\] an operator is required, but got int"):
        weft.register_sharding(3)


def test_check_rule_accepts_right_rules(no_rules):
    weft.register_sharding(softmax)(softmax_sharding)
    assert weft.check_rule(softmax, [(torch.randn(6, 12), 1), (torch.randn(6, 12), 0, 2.0)]) == ["S(0) -> S(0)", "S(1) -> S(1)"]
    weft.register_sharding(matmul, "([m,k],[k,n],[n])->([m,n]) sum={k} added={2} linear={0,2}{1,2}")
    samples = [(torch.randn(5, 4), torch.randn(4, 3)), (torch.randn(5, 4), torch.randn(4, 3), {"bias": torch.randn(3)})]
    tried = weft.check_rule(matmul, samples)
    assert "S(1) S(0) -> P(sum)" in tried and "S(1) S(0) P(sum) -> P(sum)" in tried


def test_check_rule_finds_wrong_strategies(no_rules):
    weft.register_sharding(softmax, "([a,b])->([a,b])")
    with pytest.raises(ValueError) as error:
        weft.check_rule(softmax, [(torch.randn(4, 6), 1)], mesh_sizes=(2,))
    text = str(error.value)
    assert "every strategy of weft_custom::softmax must be right" in text
    assert "S(1) -> S(1) on 2 ranks, sample 0: output 0 of rank 0 must be" in text and "S(0) -> S(0)" not in text

    weft.register_sharding(matmul, "([m,k],[k,n],[n])->([m,n]) sum={k}")  # the bias would be added on every rank
    with pytest.raises(ValueError, match=r"S\(1\) S\(0\) R -> P\(sum\) on 2 ranks, sample 0: output 0 reduced over the ranks must be"):
        weft.check_rule(matmul, [(torch.randn(5, 4), torch.randn(4, 3), torch.randn(3))], mesh_sizes=(2,))

    weft.register_sharding(add_one, "([a,b])->() linear={0}")
    with pytest.raises(ValueError, match=r"P\(sum\) -> on 2 ranks"):
        weft.check_rule(add_one, [(X.clone(),)], mesh_sizes=(2,))


def test_check_rule_needs_a_rule():
    with pytest.raises(ValueError, match=r"\[check_rule\] an operator with a rule is required, but got weft_custom::double"):
        weft.check_rule(double, [(X,)])
