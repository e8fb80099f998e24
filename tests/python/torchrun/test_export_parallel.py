"""torch.export of parallelised modules on two processes: values of eager mode, from torch and from the command `weft run`."""

import copy
import os
import subprocess
import tempfile

import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional as F

import weft
from weft import ColwiseParallel, Partial, PrepareModuleInput, Replicate, RowwiseParallel, SequenceParallel, Shard

DIM, HEADS = 16, 4


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.q, self.k, self.v, self.o = (nn.Linear(DIM, DIM) for _ in range(4))
        self.up, self.down = nn.Linear(DIM, 4 * DIM), nn.Linear(4 * DIM, DIM)

    def forward(self, x, *, mask=None):
        y = self.norm(x)
        q, k, v = (project(y).view(*x.shape[:2], -1, DIM // HEADS).transpose(1, 2) for project in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)
        x = x + self.o(mixed.reshape(*x.shape[:2], -1))
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, DIM)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.head = nn.Linear(DIM, 12, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("scale", torch.full((DIM,), 0.5), persistent=False)

    def forward(self, tokens, mask):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, mask=mask)
        return {"logits": self.head(x * self.scale), "mean": x.mean()}


def colwise(**options):
    return ColwiseParallel(use_local_output=False, **options)


def rowwise(**options):
    return RowwiseParallel(use_local_output=False, **options)


PLAN = {
    "embed": rowwise(input_layouts=Replicate()),
    **dict.fromkeys(("blocks.*.q", "blocks.*.k", "blocks.*.v", "blocks.*.up"), colwise()),
    **dict.fromkeys(("blocks.*.o", "blocks.*.down"), rowwise()),
    "head": colwise(),
}


@pytest.fixture
def folder():
    """One folder for both processes."""
    names = [tempfile.mkdtemp() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(names)
    return os.path.join(names[0], "out")


def global_value(value):
    return value.full_tensor() if weft.is_dtensor(value) else value


def collectives(program):
    names = [str(node.target) for node in program.graph.nodes if "_c10d_functional" in str(node.target)]
    return sorted(name.split(".")[1] for name in names if "wait_tensor" not in name)


def run_by_command(folder, inputs):
    """What `weft run` gives for global inputs, with threads as ranks."""
    given, made = folder + ".in.safetensors", folder + ".out.safetensors"
    if dist.get_rank() == 0:
        save_file(inputs, given)
        command = os.path.join(os.path.dirname(weft.__file__), "..", "..", "bin", "weft")
        environment = {k: v for k, v in os.environ.items() if k not in ("WORLD_SIZE", "RANK", "LOCAL_RANK")}
        done = subprocess.run(
            [command, "run", folder, "--input", given, "--output", made], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    dist.barrier()
    return load_file(made)


def test_a_parallel_decoder_gives_a_program_of_its_local_tensors(mesh, folder):
    torch.manual_seed(0)
    model = weft.parallelize_module(Model().eval(), mesh, PLAN)
    tokens, mask = torch.arange(10).view(2, 5), torch.ones(5, 5, dtype=torch.bool).tril()
    want = {name: global_value(value) for name, value in model(tokens, mask).items()}
    program = torch.export.export(model, (tokens, mask))
    assert collectives(program) == ["all_reduce"] * 5  # as in eager mode: the embedding, and two in each block
    assert list(program.state_dict) == [name for name in model.state_dict()]
    assert program.state_dict["blocks.0.up.weight"].shape == (2 * DIM, DIM)
    assert program.state_dict["head.weight"].data_ptr() == program.state_dict["embed.weight"].data_ptr()
    logits = program.module()(tokens, mask)["logits"]
    assert torch.equal(logits, want["logits"].chunk(2, -1)[dist.get_rank()])

    weft.save_exported(program, folder)
    names = program.graph_signature.user_inputs
    got = run_by_command(folder, dict(zip(names, (tokens, mask))))
    torch.testing.assert_close(got["output_0"], want["logits"], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(got["output_1"], want["mean"], rtol=1e-6, atol=1e-6)
    weft.save_exported(program, folder)  # again: the folder is replaced
    assert run_by_command(folder, dict(zip(names, (tokens, mask))))["output_0"].equal(got["output_0"])


def test_a_saved_program_is_loaded_by_torch(mesh, folder):
    torch.manual_seed(0)
    model = weft.parallelize_module(Block().eval(), mesh, {"up": colwise(), "down": rowwise()})
    x = torch.randn(2, 5, DIM)
    path = f"{folder}.{dist.get_rank()}.pt2"
    torch.export.save(torch.export.export(model, (x,), strict=True), path)
    assert torch.equal(torch.export.load(path).module()(x), model(x).full_tensor())


@pytest.mark.parametrize(
    "placement, length", [(Shard(1), 6), (Shard(1), 5), (Shard(0), 4), (Replicate(), 5), (Partial(), 4)]
)
def test_inputs_and_outputs_may_be_distributed(mesh, folder, placement, length):
    torch.manual_seed(0)
    block = Block().eval()
    x = torch.randn(2, length, DIM)
    model = weft.distribute_module(block, mesh)
    given = weft.distribute_tensor(x, mesh, [placement])
    want = model(given)
    program = torch.export.export(model, (given,))
    local = program.module()(given.to_local())
    assert torch.equal(local, want.to_local())
    weft.save_exported(program, folder)
    if placement != Partial():
        got = run_by_command(folder, {program.graph_signature.user_inputs[0]: x})
        torch.testing.assert_close(got["output_0"], want.full_tensor(), rtol=1e-6, atol=1e-6)


def test_sequence_parallel_keeps_its_collectives(mesh):
    plan = {
        "norm": SequenceParallel(),
        **dict.fromkeys(("q", "k", "v", "up"), colwise(input_layouts=Shard(1))),
        **dict.fromkeys(("o", "down"), rowwise(output_layouts=Shard(1))),
    }
    torch.manual_seed(0)
    model = weft.parallelize_module(Block().eval(), mesh, plan)
    x = weft.distribute_tensor(torch.randn(2, 6, DIM), mesh, [Shard(1)])
    program = torch.export.export(model, (x,))
    assert torch.equal(program.module()(x.to_local()), model(x).to_local())
    assert collectives(program) == ["all_gather_into_tensor"] * 2 + ["reduce_scatter_tensor"] * 2


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(DIM)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.norm(x), None, 3


def test_writes_to_buffers_and_values_that_are_no_tensors_are_kept(mesh):
    torch.manual_seed(0)
    model = weft.distribute_module(Counted().train(), mesh)
    x = weft.distribute_tensor(torch.randn(6, DIM), mesh, [Shard(0)])
    expected = copy.deepcopy(model)
    want = expected(x)[0]
    program = torch.export.export(model, (x,))
    assert model.calls.to_local() == 0  # exporting writes to nothing
    module = program.module()
    y, nothing, number = module(x.to_local())
    assert torch.equal(y, want.to_local()) and nothing is None and number == 3
    assert torch.equal(module.norm.running_mean, expected.norm.running_mean.to_local())
    assert module.calls == 1


def test_what_cannot_be_exported_is_told(mesh, folder):
    model = weft.parallelize_module(Block(), mesh, {"up": colwise(), "down": rowwise()})
    x = torch.randn(2, 5, DIM)
    with pytest.raises(ValueError, match="exported for the sizes of its example inputs, but got dynamic_shapes"):
        torch.export.export(model, (x,), dynamic_shapes={"x": {0: torch.export.Dim("batch")}})
    with pytest.raises(ValueError, match="torch.export made of a parallelised module is required, but got another one"):
        weft.save_exported(torch.export.export(nn.Linear(2, 2), (torch.ones(2, 2),)), folder)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "other"), "w"):
        pass
    dist.barrier()
    with pytest.raises(ValueError, match="a new folder is required"):  # on both ranks
        weft.save_exported(torch.export.export(model, (x,)), folder)
