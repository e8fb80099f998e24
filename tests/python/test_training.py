"""Training on a mesh dp x tp: the batch is sharded over dp, linear layers over tp, and nothing else differs from one device."""

import copy

import pytest
import torch
import weft
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from weft import Replicate, Shard

DIM, HIDDEN, ROWS = 16, 32, 8


def replicated_features(x):
    """Shards activations over dp alone, so that each pair of linear layers communicates once, as under a plan."""
    return x.redistribute(placements=[Shard(0), Replicate()]) if weft.is_dtensor(x) else x


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, HIDDEN)
        self.down = nn.Linear(HIDDEN, DIM)

    def forward(self, x):
        return replicated_features(x + self.down(F.gelu(self.up(replicated_features(self.norm(x))))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.head = nn.Linear(DIM, 4)
        self.use_reentrant = None

    def forward(self, x):
        for block in self.blocks:
            x = block(x) if self.use_reentrant is None else checkpoint(block, x, use_reentrant=self.use_reentrant)
        return replicated_features(self.head(x))


# Made once: ranks as threads share torch's random numbers.
torch.manual_seed(1)
MODEL = Model()
DATA = torch.randn(ROWS, DIM), torch.randn(ROWS, 4)
PLACEMENTS = {"up.weight": Shard(0), "up.bias": Shard(0), "down.weight": Shard(1)}


def plain_model():
    return copy.deepcopy(MODEL)


def distributed_model(mesh):
    def partition(name, module, mesh):
        for parameter_name, parameter in list(module.named_parameters(recurse=False)):
            over_tp = PLACEMENTS.get(f"{name.split('.')[-1]}.{parameter_name}", Replicate())
            distributed = weft.distribute_tensor(parameter.data, mesh, [Replicate(), over_tp])
            module.register_parameter(parameter_name, nn.Parameter(distributed))

    return weft.distribute_module(plain_model(), mesh, partition)


def on_mesh(program):
    """Runs it on the ranks of a mesh dp=2 x tp=2."""

    def run(rank):
        mesh = weft.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        return program(mesh)

    return weft.run_on_ranks(4, run)


def over_dp(mesh):
    return lambda t: weft.distribute_tensor(t, mesh, [Shard(0), Replicate()])


def loss_of(model, to_input=lambda t: t, rows=slice(None)):
    x, target = (to_input(t[rows]) for t in DATA)
    return F.mse_loss(model(x), target)


def gradients_of(model):
    return {
        name: p.grad.full_tensor() if weft.is_dtensor(p.grad) else p.grad.clone() for name, p in model.named_parameters()
    }


def check_gradients(model, expected, **tolerance):
    for name, p in model.named_parameters():
        assert weft.spec(p.grad) == weft.spec(p), name
    for name, gradient in gradients_of(model).items():
        torch.testing.assert_close(gradient, expected[name], **(tolerance or {"rtol": 1e-4, "atol": 1e-6}), msg=name)


def gradient_rows(counted):
    return [row for row in counted.rows if row.operator == "gradient"]


def local_bytes(model):
    return sum(p.to_local().nbytes for p in model.parameters())


def test_gradients_are_reduced_over_dp_together_and_lie_as_their_parameters():
    expected_model = plain_model()
    loss_of(expected_model).backward()
    expected = gradients_of(expected_model)

    def program(mesh):
        model = distributed_model(mesh)
        loss = loss_of(model, over_dp(mesh))
        with weft.comm_debug() as counted:
            loss.backward()
        assert [(row.collective, row.mesh_dims, row.calls) for row in gradient_rows(counted)] == [("all_reduce", "dp", 1)]
        assert gradient_rows(counted)[0].bytes == local_bytes(model)
        check_gradients(model, expected)

    on_mesh(program)


def test_micro_batches_accumulate():
    micro_batches = [slice(i, i + 2) for i in range(0, ROWS, 2)]
    expected_model = plain_model()
    for rows in micro_batches:
        (loss_of(expected_model, rows=rows) / len(micro_batches)).backward()
    expected = gradients_of(expected_model)

    def program(mesh):
        model = distributed_model(mesh)
        for _ in range(2):
            model.zero_grad(set_to_none=False)
            for rows in micro_batches:
                (loss_of(model, over_dp(mesh), rows) / len(micro_batches)).backward()
            check_gradients(model, expected)

    on_mesh(program)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_activations_may_be_checkpointed(use_reentrant):
    expected_model = plain_model()
    expected_model.use_reentrant = use_reentrant
    x = DATA[0].clone().requires_grad_()
    F.mse_loss(expected_model(x), DATA[1]).backward()
    expected = gradients_of(expected_model)

    def program(mesh):
        model = distributed_model(mesh)
        model.use_reentrant = use_reentrant
        inputs, target = map(over_dp(mesh), DATA)
        inputs.requires_grad_()
        with weft.comm_debug() as counted:
            F.mse_loss(model(inputs), target).backward()
        # A reentrant checkpoint is a backward pass of its own, whose gradients are there when it ends.
        assert sum(row.calls for row in gradient_rows(counted)) == (4 if use_reentrant else 1)
        assert sum(row.bytes for row in gradient_rows(counted)) == local_bytes(model)
        check_gradients(model, expected)
        torch.testing.assert_close(inputs.grad.full_tensor(), x.grad, rtol=1e-4, atol=1e-6)

    on_mesh(program)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_what_is_computed_again_draws_the_same_random_numbers(use_reentrant):
    def gradients(mesh, checkpointed):
        weft.manual_seed(3)
        weight = nn.Parameter(weft.distribute_tensor(torch.ones(DIM, DIM), mesh, [Replicate(), Shard(0)]))
        x = weft.distribute_tensor(torch.ones(ROWS, DIM), mesh, [Shard(0), Replicate()]).requires_grad_()

        def block(x):
            return F.dropout(F.linear(x, weight), 0.5)

        for _ in range(2):
            y = checkpoint(block, x, use_reentrant=use_reentrant) if checkpointed else block(x)
            (y * y).sum().backward()
        after = F.dropout(x.detach(), 0.5)
        return [t.full_tensor() for t in (weight.grad, x.grad, after)]

    def program(mesh):
        for computed, expected in zip(gradients(mesh, True), gradients(mesh, False)):
            torch.testing.assert_close(computed, expected)

    on_mesh(program)


def collectives(model, to_input, mesh, lower):
    with weft.comm_debug() as counted, torch.autocast("cpu", torch.bfloat16, enabled=lower):
        loss = loss_of(model, to_input)
    forward = sorted((row.collective, row.mesh_dims, row.operator, row.calls) for row in counted.rows)
    with weft.comm_debug() as counted:
        loss.backward()
    return forward, sorted((row.collective, row.mesh_dims, row.operator, row.calls) for row in counted.rows)


def test_autocast_trains_in_the_lower_precision():
    def step(model, to_input=lambda t: t):
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        losses = []
        for _ in range(5):
            with torch.autocast("cpu", torch.bfloat16):
                loss = loss_of(model, to_input)
            optimizer.zero_grad()
            loss.backward()
            losses.append(loss.item())
            optimizer.step()
        return losses

    expected_model = plain_model()
    with torch.autocast("cpu", torch.bfloat16):
        loss_of(expected_model).backward()
    expected, expected_losses = gradients_of(expected_model), step(plain_model())

    def program(mesh):
        model = distributed_model(mesh)
        with torch.autocast("cpu", torch.bfloat16):
            x = model.blocks[0].up(over_dp(mesh)(DATA[0]))
            loss = loss_of(model, over_dp(mesh))
        assert x.dtype == torch.bfloat16
        loss.backward()
        # Terms are rounded before they are summed: bfloat16 has 8 bits.
        check_gradients(model, expected, rtol=2**-5, atol=2**-7)
        torch.testing.assert_close(step(distributed_model(mesh), over_dp(mesh)), expected_losses, rtol=2**-6, atol=0)

    on_mesh(program)


def test_autocast_makes_the_collectives_of_full_precision():
    def program(mesh):
        full, lower = (collectives(distributed_model(mesh), over_dp(mesh), mesh, lower) for lower in (False, True))
        assert full == lower

    on_mesh(program)


def test_a_weight_stays_where_it_is_in_any_dtype():
    def program(mesh):
        weight = nn.Parameter(weft.distribute_tensor(torch.randn(8, 8), mesh, [Replicate(), Shard(0)]))
        # It would be much less to move the weight.
        x = weft.distribute_tensor(torch.randn(64, 8), mesh, [Shard(0), Shard(0)])
        for lower in (False, True):
            with weft.comm_debug() as counted, torch.autocast("cpu", torch.bfloat16, enabled=lower):
                y = F.linear(x, weight)
            assert y.placements == (Shard(0), Shard(1))
            assert counted.bytes == 16 * 8 * (2 if lower else 4)

    on_mesh(program)


def test_gradients_are_clipped_by_the_norm_of_all():
    for clip in (nn.utils.clip_grad_norm_, weft.clip_grad_norm_):
        for norm_type in (2.0, 1, "inf"):
            expected_model = plain_model()
            loss_of(expected_model).backward()
            expected_norm = nn.utils.clip_grad_norm_(expected_model.parameters(), 0.1, float(norm_type))
            expected = gradients_of(expected_model)

            def program(mesh):
                model = distributed_model(mesh)
                loss_of(model, over_dp(mesh)).backward()
                with weft.comm_debug() as counted:
                    norm = clip(model.parameters(), 0.1, float(norm_type) if clip is not weft.clip_grad_norm_ else norm_type)
                assert [(row.collective, row.mesh_dims, row.calls) for row in counted.rows] == [("all_reduce", "tp", 1)]
                assert norm.item() == pytest.approx(expected_norm.item(), rel=1e-5)
                assert norm.placements == (Replicate(), Replicate())
                check_gradients(model, expected)

            on_mesh(program)


def test_clipping_takes_torchs_arguments():
    p = nn.Parameter(torch.zeros(2))
    p.grad = torch.tensor([3.0, 4.0])
    assert weft.clip_grad_norm_(p, max_norm=1.0, norm_type=2.0, error_if_nonfinite=True, foreach=True) == 5
    torch.testing.assert_close(p.grad, torch.tensor([0.6, 0.8]))
    p.grad[0] = float("inf")
    with pytest.raises(RuntimeError, match="the norm of order 2 must be finite, but got inf"):
        weft.clip_grad_norm_((p for p in [p]), 1.0, error_if_nonfinite=True)
    with pytest.raises(TypeError, match="a tensor or several are required, but got int"):
        weft.clip_grad_norm_([1], 1.0)


def test_hooks_are_called_once_with_distributed_gradients():
    def program(mesh):
        model = distributed_model(mesh)
        early, late = model.blocks[0].norm.weight, model.head.weight
        seen = []
        early.register_hook(lambda g: seen.append(("before", weft.is_dtensor(g), g.shape)) or g * 2)
        loss_of(model, over_dp(mesh)).backward()
        once = early.grad.full_tensor()
        late.register_post_accumulate_grad_hook(lambda p: seen.append(("after", weft.is_dtensor(p.grad), p.grad.placements)))
        late.register_hook(lambda g: None)
        model.zero_grad()
        loss_of(model, over_dp(mesh)).backward()
        whole = (Replicate(), Replicate())
        before = ("before", True, early.shape)
        assert sorted(seen, key=str) == sorted([before, before, ("after", True, whole)], key=str)
        assert torch.equal(early.grad.full_tensor(), once)
        assert early.grad.placements == late.grad.placements == whole
        return once

    expected_model = plain_model()
    loss_of(expected_model).backward()
    for doubled in on_mesh(program):
        torch.testing.assert_close(doubled, expected_model.blocks[0].norm.weight.grad * 2, rtol=1e-4, atol=1e-6)


def test_an_optimizer_may_run_in_backward():
    def train(model, to_input=lambda t: t):
        optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}

        def update(p):
            optimizers[p].step()
            p.grad = None

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(update)
        for _ in range(3):
            loss_of(model, to_input).backward()
        return {name: p.full_tensor() if weft.is_dtensor(p) else p for name, p in model.named_parameters()}

    expected = train(plain_model())

    def program(mesh):
        for name, p in train(distributed_model(mesh), over_dp(mesh)).items():
            torch.testing.assert_close(p, expected[name], rtol=1e-4, atol=1e-5, msg=name)

    on_mesh(program)


def test_an_error_of_a_hook_leaves_nothing_behind():
    expected_model = plain_model()
    loss_of(expected_model).backward()
    expected = gradients_of(expected_model)

    def program(mesh):
        model = distributed_model(mesh)

        def fail(gradient):
            raise RuntimeError("an error in the middle of backward")

        handle = model.blocks[1].up.bias.register_hook(fail)
        with pytest.raises(RuntimeError, match="in the middle of backward"):
            loss_of(model, over_dp(mesh)).backward()
        handle.remove()
        model.zero_grad()
        loss_of(model, over_dp(mesh)).backward()
        check_gradients(model, expected)

    on_mesh(program)


def test_the_size_of_buckets_can_be_set():
    before = weft.gradient_bucket_bytes()
    assert before > 0

    def program(mesh):
        model = distributed_model(mesh)
        with weft.comm_debug() as counted:
            loss_of(model, over_dp(mesh)).backward()
        return sum(row.calls for row in gradient_rows(counted)), len(list(model.parameters()))

    try:
        weft.set_gradient_bucket_bytes(0)
        for calls, parameters in on_mesh(program):
            assert calls == parameters
    finally:
        weft.set_gradient_bucket_bytes(before)
    with pytest.raises(ValueError, match="a number of bytes is required, or 0 for no buckets, but got -1"):
        weft.set_gradient_bucket_bytes(-1)
