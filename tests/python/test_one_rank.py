"""On a mesh of one rank a parallel model does what the plain model does: the same kernels, no copies, the same gradients."""

import copy
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
import weft
from torch import nn
from torch.profiler import ProfilerActivity, profile

BENCH = Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
from python_decoder import COLWISE, ROWWISE, Decoder  # noqa: E402

# These operators make views, or are made of the others: they launch no kernel of their own.
WITHOUT_KERNEL = {
    "_unsafe_view", "as_strided", "detach", "flatten", "linear", "linear_backward", "matmul", "reshape", "t", "transpose",
    "view",
}  # fmt: skip


def on_one_rank(program):
    return weft.run_on_ranks(1, lambda rank: program(weft.init_device_mesh("cpu", (1,))))[0]


def kernels_of(step):
    """How often each operator runs that launches a kernel, or would on a GPU. Gradients are added up in place or not: both
    count as an addition."""
    step()
    with profile(activities=[ProfilerActivity.CPU]) as recorded:
        step()
    names = [event.name.removeprefix("aten::") for event in recorded.events() if event.name.startswith("aten::")]
    return Counter("add" if name == "add_" else name for name in names if name not in WITHOUT_KERNEL)


def decoder():
    torch.manual_seed(2)
    return Decoder(vocabulary=40, dim=16, blocks=2, heads=4), torch.randint(40, (2, 9))


def plan_with_plain_tensors(model):
    """Column and row linears, between which tensors are plain."""
    names = {path: path.rpartition(".")[2] for path, _ in model.named_modules()}
    colwise = {path: weft.ColwiseParallel() for path, name in names.items() if name in COLWISE[:-1]}
    return colwise | {path: weft.RowwiseParallel() for path, name in names.items() if name in ROWWISE}


def step_of(model, tokens):
    def step():
        model.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        return loss

    return step


def local(tensor):
    return tensor.to_local() if weft.is_dtensor(tensor) else tensor


def parallel_decoder(mesh, plan):
    """The decoder and its tokens, which are plain where the plan makes no more than its linears distributed."""
    model, tokens = decoder()
    if plan == "plain":
        return weft.parallelize_module(model, mesh, plan_with_plain_tensors(model)), tokens
    return weft.parallelize_module(model, mesh, BENCH / "plans" / plan), weft.distribute_tensor(tokens, mesh)


def test_a_parallel_model_runs_the_kernels_of_the_plain_one():
    want = kernels_of(step_of(*decoder()))
    assert {"mm", "add", "copy_"} <= want.keys()
    assert on_one_rank(lambda mesh: kernels_of(step_of(*parallel_decoder(mesh, "plain")))) == want


@pytest.mark.parametrize("plan", ["plain", "decoder.json", "decoder_sequence.json"])
def test_loss_and_gradients_are_those_of_the_plain_model(plan):
    def program(mesh):
        model, tokens = parallel_decoder(mesh, plan)
        losses = [local(step_of(model, tokens)()).detach() for _ in range(2)]
        return losses, [local(parameter.grad) for parameter in model.parameters()]

    model, tokens = decoder()
    want = [step_of(model, tokens)().detach() for _ in range(2)], [parameter.grad for parameter in model.parameters()]
    torch.testing.assert_close(on_one_rank(program), want)


@pytest.mark.parametrize("placement", [weft.Replicate(), weft.Shard(0), weft.Partial()], ids=str)
def test_gradients_flow_through_a_boundary_as_through_no_function(placement):
    """Of a leaf, twice, and of second order."""

    def program(mesh):
        x = torch.arange(4.0, requires_grad=True)
        y = weft.from_local(x, mesh, [placement]).redistribute(mesh, [weft.Replicate()]).to_local() if mesh else x * 1
        (first,) = torch.autograd.grad((y**3).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad((first**2).sum(), x, retain_graph=True)
        (x * y).sum().backward()
        return first.detach(), second, x.grad

    torch.testing.assert_close(on_one_rank(program), program(None))


@pytest.mark.parametrize("placement", [weft.Replicate(), weft.Shard(0)], ids=str)
def test_a_redistribution_without_effect_has_no_node(placement):
    def program(mesh):
        x = weft.distribute_tensor(torch.arange(4.0), mesh, [placement]).requires_grad_()
        squares = x**2
        same = squares.redistribute(mesh, [placement])
        assert same.grad_fn is squares.grad_fn and x.redistribute(mesh, [placement]).grad_fn is None
        # Another layout or dtype, also of the gradient alone, needs one.
        assert squares.redistribute(mesh, [weft.Shard(0) if placement.is_replicate() else weft.Replicate()]).grad_fn.name() == (
            "weft::redistribute"
        )
        assert squares.redistribute(mesh, [placement], backward_dtype=torch.float64).grad_fn.name() == "weft::redistribute"
        return torch.autograd.grad(same.sum(), x)[0].to_local()

    torch.testing.assert_close(on_one_rank(program), 2 * torch.arange(4.0))


def test_a_redistribution_without_effect_on_two_ranks_lays_out_the_gradient():
    def program(rank):
        mesh = weft.init_device_mesh("cpu", (2,))
        x = weft.distribute_tensor(torch.arange(4.0), mesh).requires_grad_()
        same = x.redistribute(mesh, [weft.Replicate()])
        assert same.grad_fn.name() == "weft::redistribute"
        same.register_hook(lambda gradient: weft.redistribute(gradient, mesh, [weft.Partial()]))
        (gradient,) = torch.autograd.grad(same.sum(), x)
        return gradient.placements, gradient.to_local()

    for placements, gradient in weft.run_on_ranks(2, program):
        assert placements == (weft.Replicate(),)
        torch.testing.assert_close(gradient, torch.ones(4))


def test_hooks_of_users_and_of_the_plan_run_in_the_order_in_which_they_were_added():
    def program(mesh):
        model = nn.Sequential(nn.Linear(4, 4))
        seen = []
        model[0].register_forward_pre_hook(lambda of, inputs: seen.append(weft.is_dtensor(inputs[0])))
        weft.parallelize_module(model, mesh, {"0": weft.ColwiseParallel()})
        model[0].register_forward_pre_hook(lambda of, inputs: seen.append(weft.is_dtensor(inputs[0])))
        model[0].register_forward_hook(lambda of, inputs, output: seen.append(weft.is_dtensor(output)))
        output = copy.deepcopy(model)(torch.ones(2, 4))
        torch.testing.assert_close(output, model(torch.ones(2, 4)))
        return seen

    assert on_one_rank(program) == [False, True, False] * 2


def test_a_hook_with_the_wrong_number_of_arguments_is_an_error():
    def program(mesh):
        model = weft.parallelize_module(nn.Sequential(nn.Linear(4, 4)), mesh, {"0": weft.ColwiseParallel()})
        (hook,) = model[0]._forward_hooks.values()
        with pytest.raises(TypeError, match=r"\[hook\] a hook of a module takes 3 arguments, but got 1\."):
            hook(model[0])

    on_one_rank(program)
