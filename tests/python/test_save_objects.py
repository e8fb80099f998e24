"""weft.save and weft.load of objects: what they have not yet, what they copy, and what is wrapped around them."""

import collections
import threading

import pytest
import torch
import weft
from torch import nn
from weft import Replicate, Shard


def on_ranks(fn, size=2):
    return weft.run_on_ranks(size, fn, timeout=20)


def full(tensor):
    tensor = tensor.detach()
    return weft.full_tensor(tensor) if weft.is_dtensor(tensor) else tensor


_one_at_a_time = threading.Lock()  # ranks that are threads share torch's generator


def linear_on(mesh, seed=0):
    with _one_at_a_time:
        torch.manual_seed(seed)
        model = nn.Linear(6, 4)
    model.weight = nn.Parameter(weft.distribute_tensor(model.weight.detach(), mesh, [Shard(0)], src_data_rank=None))
    model.bias = nn.Parameter(weft.distribute_tensor(model.bias.detach(), mesh, [Replicate()], src_data_rank=None))
    return model


def train(model, optimizer, steps, mesh=None):
    losses = []
    for step in range(steps):
        x = torch.sin(torch.arange(18.0).view(3, 6) + step)
        x = x if mesh is None else weft.distribute_tensor(x, mesh, [Replicate()], src_data_rank=None)

        def loss_of():
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            return loss

        loss = optimizer.step(loss_of)
        losses.append(full(loss).item())
    return losses


class Averaging(torch.optim.Optimizer):
    """Its state has all that one may have: a number, nested dicts and lists with and without tensors, and other shapes."""

    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure):
        with torch.enable_grad():
            loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state.update(step=0, name=None, history=[], rows={"mean": parameter.grad.mean(-1, keepdim=True) * 0})
                state["step"] += 1
                state["rows"]["mean"].lerp_(parameter.grad.mean(-1, keepdim=True), 0.5)
                state["history"] = [*state["history"][-1:], parameter.grad.clone()]
                for grad in state["history"]:
                    parameter.sub_(grad + state["rows"]["mean"], alpha=group["lr"] / state["step"])
        return loss


OPTIMIZERS = {
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.05, amsgrad=True),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "adafactor": lambda parameters: torch.optim.Adafactor(parameters, lr=0.05),
    "lbfgs": lambda parameters: torch.optim.LBFGS(parameters, lr=0.1, max_iter=3),
    "averaging": Averaging,
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("distributed", [False, True])
def test_a_new_optimizer_gets_all_of_its_state(tmp_path, name, distributed):
    def run(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)) if distributed else None
        made = linear_on(mesh) if distributed else (torch.manual_seed(0), nn.Linear(6, 4))[1]
        optimizer = OPTIMIZERS[name](made.parameters())
        train(made, optimizer, 3, mesh)
        weft.save({"model": made, "optimizer": optimizer}, tmp_path / "c")
        expected = train(made, optimizer, 3, mesh)

        other = linear_on(mesh, 1) if distributed else nn.Linear(6, 4)
        new = OPTIMIZERS[name](other.parameters())
        weft.load({"model": other, "optimizer": new}, tmp_path / "c")
        for old_parameter, parameter in zip(made.parameters(), other.parameters()):
            assert new.state[parameter].keys() == optimizer.state[old_parameter].keys()
            for key, value in new.state[parameter].items():
                assert type(value) is type(optimizer.state[old_parameter][key])
                if distributed and isinstance(value, torch.Tensor) and value.dim() > 1:
                    assert weft.is_dtensor(value)
        assert train(other, new, 3, mesh) == pytest.approx(expected, rel=1e-5)

    on_ranks(run) if distributed else run(0)


def test_the_dict_of_a_new_optimizer_does_not_lose_the_saved_state(tmp_path):
    model = nn.Linear(6, 4)
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, 2)
    weft.save({"optimizer": optimizer.state_dict()}, tmp_path / "c")
    new = torch.optim.AdamW(model.parameters())
    with pytest.raises(ValueError, match=r"'optimizer.state.0.\w+' is there, but the dict 'optimizer' .* Load into the object itself"):
        weft.load({"optimizer": new.state_dict()}, tmp_path / "c")
    weft.load({"optimizer": new}, tmp_path / "c")
    assert torch.equal(new.state[model.weight]["exp_avg"], optimizer.state[model.weight]["exp_avg"])
    filled = weft.load({"optimizer": optimizer.state_dict()}, tmp_path / "c")["optimizer"]
    assert filled["state"][0]["step"] == 2 and filled["param_groups"] == optimizer.state_dict()["param_groups"]


def test_an_optimizer_that_has_made_steps_becomes_the_one_that_was_saved(tmp_path):
    model = nn.Linear(6, 4)
    weft.save({"optimizer": torch.optim.AdamW(model.parameters(), lr=0.5)}, tmp_path / "c")
    optimizer = torch.optim.AdamW(model.parameters())
    train(model, optimizer, 2)
    weft.load({"optimizer": optimizer}, tmp_path / "c")
    assert not optimizer.state and optimizer.param_groups[0]["lr"] == 0.5
    with pytest.raises(ValueError, match="parameter group"):
        weft.load({"optimizer": torch.optim.AdamW([model.weight])}, tmp_path / "c")


class Growing:
    """Has no entries, or only None, until it has run."""

    def __init__(self):
        self.state = {"position": None}

    def state_dict(self):
        return self.state

    def load_state_dict(self, state):
        self.state = state


def test_an_object_gets_what_it_has_not_yet(tmp_path):
    grown = Growing()
    grown.state = {"position": {"epoch": 2, "generator": torch.Generator().get_state()}, "seen": (1, [torch.ones(2), None])}
    weft.save({"data": grown}, tmp_path / "c")
    new = weft.load({"data": Growing()}, tmp_path / "c")["data"]
    assert torch.equal(new.state["position"].pop("generator"), grown.state["position"].pop("generator"))
    assert new.state["position"] == {"epoch": 2} and new.state["seen"][0] == 1
    assert torch.equal(new.state["seen"][1][0], torch.ones(2)) and new.state["seen"][1][1] is None
    grown.state["more"] = 1
    with pytest.raises(ValueError, match="it lacks 'data.more'"):
        weft.load({"data": grown}, tmp_path / "c")


def test_what_a_module_lacks_is_an_error_unless_it_is_to_be_left_out(tmp_path):
    weft.save({"model": nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))}, tmp_path / "c")
    smaller = nn.Sequential(nn.Linear(2, 2))
    with pytest.raises(ValueError, match=r"but Sequential 'model' lacks 'model.1.bias', 'model.1.weight'. Give strict=False"):
        weft.load({"model": smaller}, tmp_path / "c")
    weft.load({"model": smaller}, tmp_path / "c", strict=False)


class Rotation(nn.Module):
    """Its table is not saved, and what computes it initialises its children, too."""

    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)
        self.register_buffer("table", torch.empty(4), persistent=False)
        self.reset_parameters()

    def reset_parameters(self):
        self.proj.reset_parameters()
        self.table.copy_(torch.arange(4.0))


@pytest.mark.parametrize("load", [weft.load, weft.load_pretrained])
def test_what_is_not_stored_is_computed_and_does_not_overwrite_what_is(tmp_path, load):
    model = nn.Sequential(Rotation(), nn.Linear(4, 4))
    weft.save(model, tmp_path / "c")

    def run(rank):
        mesh = weft.init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        with torch.device("meta"):
            other = nn.Sequential(Rotation(), nn.Linear(4, 4))
        weft.parallelize_module(other, mesh, {"0.proj": weft.ColwiseParallel()})
        load(other, tmp_path / "c")
        assert torch.equal(full(other[0].table), torch.arange(4.0))
        for name, value in model.state_dict().items():
            assert torch.equal(full(other.state_dict()[name]), value), name

    on_ranks(run)


def test_values_that_are_there_already_stay(tmp_path):
    weft.save({"proj.weight": torch.ones(4, 4)}, tmp_path / "c")
    model = Rotation()
    model.table = model.table.to("meta")
    with torch.no_grad():
        model.proj.bias.fill_(3)
    weft.load_pretrained(model, tmp_path / "c", strict=False)
    assert model.proj.weight.sum() == 16 and model.table.tolist() == [0, 1, 2, 3] and model.proj.bias.sum() == 12
    with torch.device("meta"):
        other = nn.Module()
        other.register_buffer("table", torch.empty(2), persistent=False)
    weft.save({"x": 1}, tmp_path / "d")
    with pytest.raises(ValueError, match=r"\[load\] every tensor must get its values, but table of Module is not in the folder"):
        weft.load({"model": other}, tmp_path / "d")


@pytest.mark.parametrize("load", [weft.load, weft.load_pretrained])
def test_a_module_whose_state_dict_has_copies_is_filled(tmp_path, load):
    weft.save(nn.Linear(3, 3), tmp_path / "c")
    model = nn.Linear(3, 3)
    model.register_state_dict_post_hook(lambda module, state, prefix, _: state.update({k: v.clone() for k, v in state.items()}))
    load(model, tmp_path / "c")
    assert torch.equal(model.weight, weft.load({"weight": torch.empty(3, 3)}, tmp_path / "c")["weight"])


def test_names_do_not_depend_on_wrappers(tmp_path):
    model = nn.Sequential(nn.Linear(2, 2))
    weft.save({"model": torch.compile(model)}, tmp_path / "c")
    other = nn.Sequential(nn.Linear(2, 2))
    weft.load({"model": other}, tmp_path / "c")
    assert torch.equal(other[0].weight, model[0].weight)
    with torch.no_grad():
        other[0].weight.zero_()
    wrapped = torch.compile(other)
    assert weft.load({"model": wrapped}, tmp_path / "c")["model"] is wrapped
    assert torch.equal(other[0].weight, model[0].weight)


Pair = collections.namedtuple("Pair", "first second")


def test_tuples_stay_of_their_kind(tmp_path):
    weft.save({"pair": Pair(torch.ones(2), 5), "top": torch.ones(3).topk(2)}, tmp_path / "c")
    state = {"pair": Pair(torch.zeros(2), 0), "top": torch.zeros(3).topk(2)}
    state = weft.load(state, tmp_path / "c")
    assert isinstance(state["pair"], Pair) and state["pair"].second == 5 and state["pair"].first.tolist() == [1, 1]
    assert state["top"].values.tolist() == [1, 1]


def test_what_an_ordinary_training_keeps(tmp_path):
    """A model, its average, a scaler, schedulers of each other, random numbers of torch and Python, and odd tensors."""
    import random

    def made():
        torch.manual_seed(3)
        model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
        average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        schedulers = [torch.optim.lr_scheduler.LinearLR(optimizer), torch.optim.lr_scheduler.StepLR(optimizer, 2)]
        scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, schedulers, milestones=[2])
        base = torch.zeros(4, 6)
        return {
            "model": model, "average": average, "optimizer": optimizer, "scheduler": scheduler, "scaler": torch.amp.GradScaler("cpu"),
            "step": 0, "best": None, "done": False, "name": "", "sizes": (), "torch_random": torch.zeros_like(torch.get_rng_state()),
            "python_random": None, "views": {"base": base, "transposed": base.t()[1:3], "number": torch.tensor(0.0)},
        }  # fmt: skip

    def go(state):
        state["optimizer"].zero_grad()
        state["scaler"].scale(state["model"](torch.rand(5, 3)).square().sum() * random.random()).backward()
        state["scaler"].step(state["optimizer"])
        state["scaler"].update()
        state["scheduler"].step()
        state["average"].update_parameters(state["model"])
        return [parameter.detach().clone() for parameter in (*state["model"].parameters(), *state["average"].buffers())]

    state = made()
    for _ in range(3):
        go(state)
    state["views"]["base"].copy_(torch.arange(24.0).view(4, 6))
    state["views"]["number"].fill_(7)
    state.update(step=3, best=0.5, done=True, name="ünï", sizes=(1, (2,)))
    state.update(torch_random=torch.get_rng_state(), python_random=random.getstate())
    weft.save(state, tmp_path / "c")
    expected = go(state), torch.rand(2), state["scheduler"].get_last_lr()

    other = weft.load(made(), tmp_path / "c")
    torch.set_rng_state(other["torch_random"])
    random.setstate(other["python_random"])
    assert [other[key] for key in ("step", "best", "done", "name", "sizes")] == [3, 0.5, True, "ünï", (1, (2,))]
    assert torch.equal(other["views"]["transposed"], torch.arange(24.0).view(4, 6).t()[1:3]) and other["views"]["number"] == 7
    parameters, numbers, rates = expected
    assert all(map(torch.equal, go(other), parameters))
    assert torch.equal(torch.rand(2), numbers) and other["scheduler"].get_last_lr() == rates


def test_odd_values_are_named(tmp_path):
    for value, kind in ((b"x", "bytes"), ({1, 2}, "set"), (torch.float32, "dtype"), (1j, "complex")):
        with pytest.raises(TypeError, match=rf"'run.x' must be a tensor, .* but got {kind}"):
            weft.save({"run": {"x": value}}, tmp_path / "c")
    assert not (tmp_path / "c").exists()
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)
    for value in (torch.eye(3).to_sparse(), quantized, torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])):
        with pytest.raises((TypeError, ValueError), match="'x' must be a dense tensor"):
            weft.save({"x": value}, tmp_path / "c")


def test_a_tensor_without_memory_of_its_own_is_refused(tmp_path):
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.testing._internal.two_tensor import TwoTensor

    weft.save({"x": torch.ones(2)}, tmp_path / "c")
    for odd in (FakeTensorMode().from_tensor(torch.ones(2)), TwoTensor(torch.ones(2), torch.ones(2))):
        for run in (lambda: weft.save({"x": odd}, tmp_path / "d"), lambda: weft.load({"x": odd}, tmp_path / "c")):
            with pytest.raises(TypeError, match=rf"'x' must be a plain tensor or one of Weft's, but got {type(odd).__name__}"):
                run()
        model = nn.Module()
        model.register_buffer("x", odd)
        with pytest.raises(TypeError, match=r"\[load_pretrained\] 'x' must be a plain tensor"):
            weft.load_pretrained(model, tmp_path / "c")
