"""What PyTorch's modules, optimizers and tools do with distributed tensors: the same as with plain ones."""

import copy
import pickle

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from weft import Replicate, Shard

RANKS = 2


# Made once: ranks as threads share torch's random numbers, so what they would draw depends on who comes first.
torch.manual_seed(1)
MODEL = nn.Sequential(nn.Linear(8, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, 8))
DATA = torch.randn(6, 8), torch.randn(6, 8)


def plain_model():
    return copy.deepcopy(MODEL)


def placements_of(name):
    return {"0.weight": [Shard(0)], "0.bias": [Shard(0)], "3.weight": [Shard(1)]}.get(name, [Replicate()])


def distributed_model(mesh, model=None):
    """The first linear sharded by its outputs, the last by its inputs, the rest replicated."""
    model = model or plain_model()

    def partition(name, module, mesh):
        for parameter_name, parameter in list(module.named_parameters(recurse=False)):
            placements = placements_of(f"{name}.{parameter_name}")
            distributed = weft.distribute_tensor(parameter.data, mesh, placements)
            module.register_parameter(parameter_name, nn.Parameter(distributed))

    return weft.distribute_module(model, mesh, partition)


def on_mesh(program, ranks=RANKS):
    return weft.run_on_ranks(ranks, lambda rank: program(weft.init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))))


def trained(model, make_optimizer, to_input=lambda t: t, steps=3, clip=None):
    optimizer = make_optimizer(model.parameters())
    x, target = map(to_input, DATA)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), target)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), **clip)
        optimizer.step()
        losses.append(loss.full_tensor().item() if weft.is_dtensor(loss) else loss.item())
    return losses


def whole_parameters(model):
    return {name: parameter.full_tensor().detach() for name, parameter in model.named_parameters()}


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=False),
    "sgd_foreach": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "sgd_fused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=False),
    "adamw_foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    "adagrad_fused": lambda p: torch.optim.Adagrad(p, lr=0.1, fused=True),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "adam_amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("input_placements", [[Replicate()], [Shard(0)]], ids=str)
def test_an_optimizer_trains_as_on_one_device(name, input_placements):
    make_optimizer = OPTIMIZERS[name]
    expected_model = plain_model()
    expected = trained(expected_model, make_optimizer)

    def program(mesh):
        model = distributed_model(mesh)
        losses = trained(model, make_optimizer, lambda t: weft.distribute_tensor(t, mesh, input_placements))
        return losses, whole_parameters(model)

    for losses, parameters in on_mesh(program):
        assert losses == pytest.approx(expected, rel=1e-5)
        for parameter_name, parameter in expected_model.named_parameters():
            torch.testing.assert_close(parameters[parameter_name], parameter.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
@pytest.mark.parametrize("foreach", [None, True, False])
def test_clip_grad_norm_clips_by_the_norm_of_the_whole(norm_type, foreach):
    clip = {"max_norm": 0.1, "norm_type": norm_type, "foreach": foreach}
    expected = trained(plain_model(), OPTIMIZERS["sgd"], clip=clip)

    def program(mesh):
        losses = trained(
            distributed_model(mesh), OPTIMIZERS["sgd"], lambda t: weft.distribute_tensor(t, mesh, [Replicate()]), clip=clip
        )
        model = distributed_model(mesh)
        model(weft.ones(2, 8, device_mesh=mesh)).sum().backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), **clip)
        return losses, norm.full_tensor().item()

    model = plain_model()
    model(torch.ones(2, 8)).sum().backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), **clip).item()
    for losses, its_norm in on_mesh(program):
        assert losses == pytest.approx(expected, rel=1e-5) and its_norm == pytest.approx(norm, rel=1e-5)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_activation_checkpoints_give_the_same_gradients(use_reentrant):
    def program(mesh):
        gradients = []
        for through_checkpoint in (False, True):
            model = distributed_model(mesh)
            x = weft.distribute_tensor(DATA[0], mesh, [Shard(0)]).requires_grad_()
            y = checkpoint(model, x, use_reentrant=use_reentrant) if through_checkpoint else model(x)
            y.sum().backward()
            gradients.append([x.grad.full_tensor()] + [p.grad.full_tensor() for p in model.parameters()])
        for one, other in zip(*gradients):
            assert torch.equal(one, other)

    on_mesh(program)


def test_autocast_computes_in_the_lower_precision():
    def program(mesh):
        model = distributed_model(mesh)
        x = weft.distribute_tensor(DATA[0], mesh, [Replicate()])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = model(x)
        assert y.dtype == torch.bfloat16
        y.sum().backward()
        assert all(p.grad.dtype == torch.float32 for p in model.parameters())
        return y.full_tensor()

    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = plain_model()(DATA[0])
    for y in on_mesh(program):
        torch.testing.assert_close(y, expected, rtol=0.05, atol=0.05)


def test_a_module_is_copied_deeply():
    def program(mesh):
        model = distributed_model(mesh)
        model(weft.ones(2, 8, device_mesh=mesh)).sum().backward()
        twin = copy.deepcopy(model)
        for (name, one), other in zip(model.named_parameters(), twin.parameters()):
            assert type(other) is nn.Parameter and weft.spec(one) == weft.spec(other)
            assert one.to_local().data_ptr() != other.to_local().data_ptr(), name
            assert torch.equal(one.to_local(), other.to_local())
        with torch.no_grad():
            model[0].weight.zero_()
        assert twin[0].weight.full_tensor().abs().sum() > 0

    on_mesh(program)


def test_a_tensor_is_copied_deeply_with_gradient_attributes_and_sharing():
    def program(mesh):
        x = weft.ones(4, device_mesh=mesh, placements=[Shard(0)], requires_grad=True)
        x.sum().backward()
        x.note = ["kept"]
        one, other = copy.deepcopy([x, x])
        assert one is other and one is not x
        assert one.requires_grad and one.is_leaf and one.placements == x.placements and one.note == ["kept"]
        assert one.note is not x.note and torch.equal(one.grad.full_tensor(), x.grad.full_tensor())
        with pytest.raises(RuntimeError, match="a leaf is required"):
            copy.deepcopy(x + 1)

    on_mesh(program)
    plain = torch.ones(2, requires_grad=True)
    assert torch.equal(copy.deepcopy(plain), plain)


def test_a_state_dict_is_loaded_back():
    def program(mesh):
        model, twin = distributed_model(mesh), distributed_model(mesh)
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.zero_()
        state = model.state_dict()
        assert all(weft.is_dtensor(value) for value in state.values())
        assert twin.load_state_dict(state) == nn.modules.module._IncompatibleKeys([], [])
        for one, other in zip(model.parameters(), twin.parameters()):
            assert torch.equal(one.to_local(), other.to_local()) and weft.spec(one) == weft.spec(other)
        twin.load_state_dict(state, assign=True)
        assert twin[0].weight.placements == (Shard(0),)

    on_mesh(program)


def test_an_optimizers_state_is_loaded_back():
    def program(mesh):
        def to_input(tensor):
            return weft.distribute_tensor(tensor, mesh, [Replicate()])

        model = distributed_model(mesh)
        trained(model, OPTIMIZERS["adamw"], to_input, steps=2)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        model(to_input(DATA[0])).sum().backward()
        optimizer.step()
        other = torch.optim.AdamW(model.parameters(), lr=0.01)
        other.load_state_dict(optimizer.state_dict())
        for parameter in model.parameters():
            moment = other.state[parameter]["exp_avg"]
            assert moment.placements == parameter.placements
            assert torch.equal(moment.to_local(), optimizer.state[parameter]["exp_avg"].to_local())
        other.step()

    on_mesh(program)


def test_a_module_changes_its_dtype():
    def program(mesh):
        model = distributed_model(mesh).to(torch.float64)
        assert all(p.dtype == torch.float64 and type(p) is nn.Parameter for p in model.parameters())
        assert model[0].weight.placements == (Shard(0),)
        return model(weft.distribute_tensor(DATA[0].double(), mesh, [Replicate()])).full_tensor()

    expected = plain_model().double()(DATA[0].double())
    for y in on_mesh(program):
        torch.testing.assert_close(y, expected)


def test_hooks_see_distributed_tensors():
    def program(mesh):
        seen = []
        model = distributed_model(mesh)
        model[0].register_forward_pre_hook(lambda module, inputs: seen.append(("in", weft.is_dtensor(inputs[0]))))
        model[0].register_forward_hook(lambda module, inputs, output: seen.append(("out", output.placements)))
        model[0].register_full_backward_hook(lambda module, grad_in, grad_out: seen.append(("grad", weft.is_dtensor(grad_out[0]))))
        model[0].weight.register_hook(lambda grad: seen.append(("weight", weft.is_dtensor(grad))))
        model[0].weight.register_post_accumulate_grad_hook(lambda p: seen.append(("done", p.grad.placements)))
        model(weft.ones(2, 8, device_mesh=mesh, requires_grad=True)).sum().backward()
        return seen

    for seen in on_mesh(program):
        assert seen[0] == ("in", True) and seen[1] == ("out", (Shard(1),))
        assert set(seen[2:]) == {("grad", True), ("weight", True), ("done", (Shard(0),))}


def test_a_hook_that_comes_later_leaves_the_gradient_as_its_leaf_lies():
    def program(mesh):
        weight = nn.Parameter(weft.distribute_tensor(torch.ones(3, 4), mesh, [Replicate()]))
        x = weft.distribute_tensor(torch.ones(6, 4), mesh, [Shard(0)])
        seen = []
        for _ in range(2):
            weight.grad = None
            F.linear(x, weight).sum().backward()
            assert weight.grad.placements == (Replicate(),)
            weight.register_hook(lambda grad: seen.append(weft.is_dtensor(grad)))
        assert seen == [True]

    on_mesh(program)


def test_functions_of_pytorchs_older_form_warn(recwarn):
    mesh = weft.init_device_mesh("cpu", (1,))
    weft.distribute_module(nn.Linear(1, 1), mesh, input_fn=lambda module, inputs, mesh: inputs)
    assert not recwarn.list
    for name in ("input_fn", "output_fn"):
        with pytest.warns(FutureWarning, match=rf"\[distribute_module\] {name} of \(values, device_mesh\)"):
            weft.distribute_module(nn.Linear(1, 1), mesh, **{name: lambda values, mesh: values})


@pytest.mark.filterwarnings("ignore:.*older form:FutureWarning")
def test_distribute_module_replicates_and_calls_its_functions():
    def program(mesh):
        model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        weft.distribute_module(
            model,
            mesh,
            input_fn=lambda module, inputs, mesh: tuple(weft.distribute_tensor(x, mesh, [Shard(0)]) for x in inputs),
            output_fn=lambda outputs, mesh: outputs.full_tensor(),
        )
        assert all(p.placements == (Replicate(),) for p in model.parameters())
        assert all(weft.is_dtensor(b) for b in model.buffers())
        y = model(torch.ones(4, 4))
        assert y.shape == (4, 4) and not weft.is_dtensor(y)
        with pytest.raises(RuntimeError, match="a module is distributed once"):
            weft.distribute_module(model, mesh)
        with pytest.raises(ValueError, match="input_fn must take"):
            weft.distribute_module(nn.Linear(1, 1), mesh, input_fn=lambda one: one)

    on_mesh(program)


def test_specs_and_placements_are_pickled():
    def program(mesh):
        spec = weft.spec(weft.zeros(4, 6, device_mesh=mesh, placements=[Shard(1)]))
        return str(spec), pickle.loads(pickle.dumps(spec))

    for text, copied in on_mesh(program):
        assert text == str(copied) == "f32[4,6] @ mesh(tp=2) {S(1)}"
    planned = weft.TensorSpec.parse("f32[8,16] @ mesh(dp=2,tp=4) {S(0), R}")
    assert pickle.loads(pickle.dumps(planned)) == planned
    for placement in (Shard(1), Replicate(), weft.Partial("max"), weft.StridedShard(0, split_factor=2)):
        again = pickle.loads(pickle.dumps(placement))
        assert again == placement and type(again) is type(placement) and copy.deepcopy(placement) == placement


def test_a_tensor_prints_its_spec_and_what_this_rank_holds():
    def program(mesh):
        x = weft.distribute_tensor(torch.arange(6.0).reshape(3, 2), mesh, [Shard(0)])
        parameter = nn.Parameter(x)
        assert repr(parameter) == "Parameter containing:\n" + repr(x)
        return repr(x) if mesh.get_rank() == 1 else None  # the other rank takes no part

    assert on_mesh(program)[1] == "f32[3,2] @ mesh(tp=2) {S(0)}\nrank 1 holds [1,2]:\n[[4, 5]]"
    assert repr(torch.ones(1)) == "tensor([1.])" and f"{torch.tensor(1.5):.2f}" == "1.50"
