"""One rank of the benchmark 'fully_sharded': a training step of the decoder in bench/python_decoder.py, started by bench/run.py.

Cases, whose size is the model's dim; each rank has a sequence of its own, or with " x3" at the end three:
  weft, weft global   weft.fully_shard, a unit per block and one for the rest; with plain data, and with a distributed batch
  torch               torch.distributed.fsdp.fully_shard, the same units
  weft dp             Weft's data parallelism: replicated parameters, gradients reduced in buckets
  ddp                 DistributedDataParallel
  single              the full model on every rank, without communication
  communication       weft.fully_shard with one token, without the optimizer: what is communicated, and hardly more
Modes that are compared start from the same parameters and must have the same losses before the first is timed.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import weft
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from weft import Shard

from serve import serve_as_rank

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from python_decoder import Decoder  # noqa: E402

VOCABULARY, BLOCKS, LENGTH = 1024, 8, 256
AGREEING_STEPS = 3
TOLERANCE = 1e-4


def sharded(model, shard):
    for block in model.blocks:
        shard(block)
    shard(model)
    return model


def mean_loss(loss):
    """Of the ranks."""
    if weft.is_dtensor(loss):
        return loss.full_tensor().item()
    total = loss.detach().clone()
    dist.all_reduce(total)
    return total.item() / dist.get_world_size()


class Training:
    def __init__(self, model, tokens):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        self.inputs, self.targets = tokens

    def backward(self):
        loss = F.cross_entropy(self.model(self.inputs).flatten(0, 1), self.targets.flatten())
        loss.backward()
        return loss

    def step(self):
        loss = self.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def communicate(self):
        self.backward()
        self.optimizer.zero_grad()


def training(mode, dim, sequences=1):
    """The same parameters and tokens for every mode."""
    torch.manual_seed(0)
    model = Decoder(VOCABULARY, dim, BLOCKS, dim // 64)
    ranks = dist.get_world_size()
    tokens = torch.randint(VOCABULARY, (ranks * sequences, LENGTH + 1))
    batch = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    own = [each.chunk(ranks)[dist.get_rank()] for each in batch]
    mesh = weft.init_device_mesh("cpu", (ranks,), mesh_dim_names=("dp",))
    if mode in ("weft global", "weft dp"):
        distributed = [weft.distribute_tensor(each, mesh, [Shard(0)]) for each in batch]
        if mode == "weft dp":
            return Training(weft.distribute_module(model, mesh), distributed)
        return Training(sharded(model, lambda part: weft.fully_shard(part, mesh)), distributed)
    if mode == "weft":
        return Training(sharded(model, lambda part: weft.fully_shard(part, mesh)), own)
    if mode == "communication":
        return Training(sharded(model, lambda part: weft.fully_shard(part, mesh)), [each[:1, :1] for each in own])
    if mode == "torch":
        of_torch = init_device_mesh("cpu", (ranks,), mesh_dim_names=("dp",))
        return Training(sharded(model, lambda part: fully_shard(part, mesh=of_torch)), own)
    return Training(DistributedDataParallel(model) if mode == "ddp" else model, own)


def first_losses(mode, dim):
    """The training, and the losses of its first steps if they are those of all ranks' data."""
    made = training(mode, dim)
    if mode == "single":
        made.step()
        return made, None
    return made, [mean_loss(made.step()) for _ in range(AGREEING_STEPS)]


def calls():
    made, expected = {}, {}

    def make_call(case, dim):
        if case == "communication":
            return training(case, dim).communicate
        mode, _, sequences = case.partition(" x")
        if sequences:
            return training(mode, dim, int(sequences)).step
        if dim not in expected:
            made["ddp", dim], expected[dim] = first_losses("ddp", dim)
        if (mode, dim) not in made:
            made[mode, dim], losses = first_losses(mode, dim)
            if losses and any(abs(a - b) > TOLERANCE * b for a, b in zip(losses, expected[dim])):
                raise RuntimeError(
                    f"the losses of {mode} at dim {dim} must be {expected[dim]}, as those of ddp, but got {losses}"
                )
        return made[mode, dim].step

    return make_call


if __name__ == "__main__":
    sys.exit(serve_as_rank(__doc__, calls))
