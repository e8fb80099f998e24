"""Fully sharded training on a CUDA device: ranks as threads that share one GPU, on streams of their own, and NCCL with one rank.

Kernels that do nothing for milliseconds stand where compute would take long, so that memory which is used too early, or again too
early, changes the losses.
"""

import contextlib
import copy
import threading

import torch
import torch.distributed as dist
import weft
from torch import nn
from torch.nn import functional as F
from weft import Shard

DIM, HIDDEN, ROWS, STEPS = 24, 53, 8, 5
LONG = 5_000_000  # cycles of a kernel that waits, 3 ms


class Delay(torch.autograd.Function):
    """Its input, after a while, forward and backward."""

    @staticmethod
    def forward(ctx, x, cycles):
        ctx.cycles = cycles
        torch.cuda._sleep(cycles)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        torch.cuda._sleep(ctx.cycles)
        return gradient, None


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, HIDDEN)
        self.down = nn.Linear(HIDDEN, DIM)
        self.cycles = 0

    def forward(self, x):
        if self.cycles:
            x = Delay.apply(x, self.cycles)
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(7, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(4))
        self.last = nn.Linear(DIM, 7)

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.last(x)


torch.manual_seed(1)
MODEL = Model().cuda()
DATA = [(torch.randn(ROWS, 7).cuda(), torch.randn(ROWS, 7).cuda()) for _ in range(STEPS)]


def sharded(mesh, **options):
    model = copy.deepcopy(MODEL)
    for block in model.blocks:
        weft.fully_shard(block, mesh, "dp", **options)
    return weft.fully_shard(model, mesh, "dp", **options)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.02)


def step(model, optimizer, x, target):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), target)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


def trained(model, to_batch=lambda t: t, make=adamw):
    optimizer = make(model.parameters())
    losses = [step(model, optimizer, *map(to_batch, batch)) for batch in DATA]
    return losses, [parameter.detach() for parameter in model.parameters()]


def value(tensor):
    return tensor.full_tensor() if weft.is_dtensor(tensor) else tensor


def expect_as_one_device(given, expected, mesh):
    losses, parameters = given
    for loss, of_one in zip(losses, expected[0], strict=True):
        if not weft.is_dtensor(loss):
            loss = weft.from_local(loss.reshape(1), mesh, [Shard(0)]).full_tensor().mean()
        torch.testing.assert_close(value(loss), of_one, rtol=1e-4, atol=1e-5)
    for parameter, of_one in zip(parameters, expected[1], strict=True):
        torch.testing.assert_close(value(parameter), of_one, rtol=1e-3, atol=1e-4)


def own_part(mesh):
    return lambda t: t.chunk(mesh.size())[mesh.get_local_rank()]


def on_ranks(ranks, program, own_streams=False):
    """Runs a program on ranks that are threads, all on the default stream or each on its own."""

    def on_rank(rank):
        mesh = weft.init_device_mesh("cuda", (ranks,), mesh_dim_names=("dp",))
        stream = torch.cuda.Stream() if own_streams else torch.cuda.default_stream()
        with torch.cuda.stream(stream):
            program(mesh)
        stream.synchronize()

    torch.cuda.synchronize()
    weft.run_on_ranks(ranks, on_rank, timeout=60)


@contextlib.contextmanager
def nccl_mesh():
    """Of one rank."""
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield weft.init_device_mesh("cuda", (1,), mesh_dim_names=("dp",))
    finally:
        dist.destroy_process_group()


@contextlib.contextmanager
def no_host_synchronisation():
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def test_losses_are_those_of_one_device():
    expected = trained(copy.deepcopy(MODEL))
    for ranks in (1, 2, 4):
        for options in ({}, {"reshard_after_forward": False}):
            for own_streams in (False, True):

                def program(mesh):
                    expect_as_one_device(trained(sharded(mesh, **options), own_part(mesh)), expected, mesh)

                    def distributed(t):
                        return weft.distribute_tensor(t, mesh, [Shard(0)])

                    expect_as_one_device(trained(sharded(mesh, **options), distributed), expected, mesh)

                on_ranks(ranks, program, own_streams)


def test_memory_is_used_again_when_slow_kernels_have_read_it():
    expected = trained(copy.deepcopy(MODEL))

    def program(mesh):
        model = sharded(mesh)
        for number, block in enumerate(model.blocks):
            block.cycles = LONG * (1 + (number + mesh.get_local_rank()) % 2)
        expect_as_one_device(trained(model, own_part(mesh)), expected, mesh)

    on_ranks(2, program, own_streams=True)
    on_ranks(2, program, own_streams=False)


def test_ranks_on_the_default_stream_and_on_another():
    expected = trained(copy.deepcopy(MODEL))

    def program(mesh):
        stream = torch.cuda.Stream() if mesh.get_local_rank() == 1 else torch.cuda.current_stream()
        with torch.cuda.stream(stream):
            model = sharded(mesh)
            model.blocks[1].cycles = LONG
            expect_as_one_device(trained(model, own_part(mesh)), expected, mesh)

    on_ranks(2, program)


def test_a_gather_that_was_started_on_another_stream():
    def program(mesh):
        model = sharded(mesh)
        side = torch.cuda.Stream()
        for _ in range(3):
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.cuda._sleep(LONG)
                handle = model.unshard(async_op=True)
            handle.wait()
            torch.testing.assert_close(model.first.weight.detach(), MODEL.first.weight.detach())
            torch.cuda._sleep(LONG)
            copied = model.first.weight.detach().clone()
            model.reshard()
            with torch.cuda.stream(side):
                torch.full((1 << 16,), 7.0, device="cuda")  # may take the memory that was freed
            torch.testing.assert_close(copied, MODEL.first.weight.detach())

    on_ranks(2, program)


def test_steps_of_one_rank_under_nccl():
    expected = trained(copy.deepcopy(MODEL))
    with nccl_mesh() as mesh:
        expect_as_one_device(trained(sharded(mesh)), expected, mesh)
        expect_as_one_device(trained(sharded(mesh, reshard_after_forward=False)), expected, mesh)


def test_no_host_synchronisation_under_nccl():
    with nccl_mesh() as mesh:
        model = sharded(mesh)
        optimizer = adamw(model.parameters())
        for x, target in DATA[:2]:
            step(model, optimizer, x, target)
        with no_host_synchronisation():
            F.mse_loss(model(DATA[2][0]), DATA[2][1]).backward()
            step(model, optimizer, *DATA[3])


def test_no_host_synchronisation_on_ranks_that_are_threads():
    everyone = threading.Barrier(2)

    def program(mesh):
        model = sharded(mesh)
        optimizer = adamw(model.parameters())
        own = own_part(mesh)
        for x, target in DATA[:2]:
            step(model, optimizer, own(x), own(target))
        everyone.wait(60)
        with no_host_synchronisation() if mesh.get_local_rank() == 0 else contextlib.nullcontext():
            everyone.wait(60)
            step(model, optimizer, own(DATA[2][0]), own(DATA[2][1]))
            everyone.wait(60)

    on_ranks(2, program, own_streams=True)


def test_the_host_runs_ahead_of_a_slow_device():
    """Prefetched gathers and reductions are waited for by streams: a step is given to the device before it has computed it."""
    with nccl_mesh() as mesh:
        model = sharded(mesh)
        optimizer = adamw(model.parameters())
        for x, target in DATA[:2]:
            step(model, optimizer, x, target)
        torch.cuda.synchronize()
        torch.cuda._sleep(100 * LONG)
        given = torch.cuda.Event()
        step(model, optimizer, *DATA[2])
        given.record()
        assert not given.query()
        torch.cuda.synchronize()


def captured_losses(model, optimizer):
    """Of replays of one captured step; the first steps are eager."""
    x, target = (torch.empty_like(each) for each in DATA[0])

    def load(batch):
        x.copy_(batch[0])
        target.copy_(batch[1])

    losses = []
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for batch in DATA[:2]:
            load(batch)
            losses.append(step(model, optimizer, x, target).clone())
    torch.cuda.current_stream().wait_stream(side)
    optimizer.zero_grad()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(model, optimizer, x, target)
    for batch in DATA[2:]:
        load(batch)
        graph.replay()
        losses.append(loss.clone())
        # Memory that the graph uses must not be given to others in between.
        for size in (1 << 8, 1 << 12, 1 << 16):
            torch.full((size,), float("nan"), device="cuda")
    return losses


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


def capturable(parameters):
    return torch.optim.AdamW(parameters, lr=0.02, capturable=True)


def expect_captured_as_one_device(mesh, make):
    expected, _ = trained(copy.deepcopy(MODEL), make=make)
    for options in ({}, {"reshard_after_forward": False}):
        model = sharded(mesh, **options)
        losses = captured_losses(model, make(model.parameters()))
        for loss, of_one in zip(losses, expected, strict=True):
            torch.testing.assert_close(loss, of_one, rtol=1e-4, atol=1e-5)


def test_a_step_is_captured_and_replayed_under_nccl():
    with nccl_mesh() as mesh:
        expect_captured_as_one_device(mesh, momentum)


def test_a_step_with_adamw_is_captured_and_replayed():
    with nccl_mesh() as mesh:
        expect_captured_as_one_device(mesh, capturable)


def test_a_step_of_one_thread_is_captured_and_replayed():
    on_ranks(1, lambda mesh: expect_captured_as_one_device(mesh, momentum))


def offloaded(mesh, **options):
    from torch.distributed.fsdp import CPUOffloadPolicy

    return sharded(mesh, offload_policy=CPUOffloadPolicy(), **options)


def test_offloaded_shards_are_those_of_one_device():
    expected = trained(copy.deepcopy(MODEL))

    def program(mesh):
        for options in ({}, {"reshard_after_forward": False}):
            model = offloaded(mesh, **options)
            for number, block in enumerate(model.blocks):
                block.cycles = LONG * (1 + (number + mesh.get_local_rank()) % 2)
            losses, parameters = trained(model, own_part(mesh))
            for parameter in model.parameters():
                assert parameter.device.type == "cpu" and parameter.grad.device.type == "cpu"
                assert parameter.to_local().is_pinned() or parameter.to_local().numel() == 0
            expect_as_one_device((losses, [value(p).cuda() for p in parameters]), expected, mesh)

            def distributed(t):
                return weft.distribute_tensor(t, mesh, [Shard(0)])

            losses, parameters = trained(offloaded(mesh, **options), distributed)
            expect_as_one_device((losses, [value(p).cuda() for p in parameters]), expected, mesh)

    for ranks in (1, 2):
        for own_streams in (False, True):
            on_ranks(ranks, program, own_streams)


def test_offloaded_shards_under_nccl():
    expected = trained(copy.deepcopy(MODEL))
    with nccl_mesh() as mesh:
        losses, parameters = trained(offloaded(mesh))
        expect_as_one_device((losses, [value(p).cuda() for p in parameters]), expected, mesh)


def test_offloaded_shards_may_be_written_to_after_a_forward():
    with nccl_mesh() as mesh, torch.no_grad():
        model = offloaded(mesh)
        x = DATA[0][0]
        expected = MODEL(x)
        for _ in range(5):
            torch.cuda._sleep(LONG)
            given = model(x)
            before = [parameter.clone() for parameter in model.parameters()]
            for parameter in model.parameters():
                parameter.fill_(float("nan"))  # on the CPU, at once
            torch.testing.assert_close(given, expected)
            for parameter, value_before in zip(model.parameters(), before, strict=True):
                parameter.copy_(value_before)


def test_forward_of_offloaded_shards_does_not_wait_for_the_device():
    with nccl_mesh() as mesh:
        model = offloaded(mesh)
        optimizer = adamw(model.parameters())
        for x, target in DATA[:2]:
            step(model, optimizer, x, target)
        with no_host_synchronisation():
            loss = F.mse_loss(model(DATA[2][0]), DATA[2][1])
        loss.backward()
        optimizer.step()


def test_parameters_that_few_ranks_use():
    def program(mesh):
        torch.manual_seed(0)
        layers = nn.ModuleDict({name: nn.Linear(5, 3, bias=False) for name in ("all", "one", "none")}).cuda()

        class Chosen(nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = layers

            def forward(self, x):
                y = self.layers["all"](x)
                return y + self.layers["one"](x) if mesh.get_local_rank() == 1 else y

        model = weft.fully_shard(Chosen(), mesh, "dp")
        for _ in range(2):
            model.zero_grad()
            model(torch.ones(2, 5, device="cuda")).sum().backward()
            gradients = {name: layer.weight.grad for name, layer in layers.items()}
            torch.testing.assert_close(gradients["all"].full_tensor(), torch.full((3, 5), 2.0, device="cuda"))
            torch.testing.assert_close(gradients["one"].full_tensor(), torch.full((3, 5), 1.0, device="cuda"))
            assert gradients["none"] is None

    on_ranks(2, program, own_streams=True)


def test_steps_leave_no_memory_behind():
    with nccl_mesh() as mesh:
        model = sharded(mesh)
        optimizer = adamw(model.parameters())
        taken = []
        for batch in DATA:
            step(model, optimizer, *batch)
            taken.append(torch.cuda.memory_allocated())
        assert taken[2] == taken[-1], taken
