"""One rank of the benchmark 'fully_sharded': a training step of the decoder in bench/python_decoder.py, started by bench/run.py.

Cases, whose size is the model's dim; each rank has a sequence of its own:
  weft, weft global   weft.fully_shard, a unit per block and one for the rest; with plain data, and with a distributed batch
  torch               torch.distributed.fsdp.fully_shard, the same units
  weft dp             Weft's data parallelism: replicated parameters, gradients reduced in buckets
  ddp                 DistributedDataParallel
  single              the full model on every rank, without communication
All but the last start from the same parameters and must have the same losses before the first is timed.
"""

import copy
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

    def step(self):
        loss = F.cross_entropy(self.model(self.inputs).flatten(0, 1), self.targets.flatten())
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss


def trainings(dim):
    torch.manual_seed(0)
    tokens = torch.randint(VOCABULARY, (dist.get_world_size(), LENGTH + 1))
    batch = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    own = [each[dist.get_rank() :][:1] for each in batch]
    mesh = weft.init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
    of_torch = init_device_mesh("cpu", (dist.get_world_size(),), mesh_dim_names=("dp",))
    distributed = [weft.distribute_tensor(each, mesh, [Shard(0)]) for each in batch]
    model = Decoder(VOCABULARY, dim, BLOCKS, dim // 64)

    def new():
        return copy.deepcopy(model)

    return {
        "weft": Training(sharded(new(), lambda part: weft.fully_shard(part, mesh)), own),
        "weft global": Training(sharded(new(), lambda part: weft.fully_shard(part, mesh)), distributed),
        "torch": Training(sharded(new(), lambda part: fully_shard(part, mesh=of_torch)), own),
        "weft dp": Training(weft.distribute_module(new(), mesh), distributed),
        "ddp": Training(DistributedDataParallel(new()), own),
        "single": Training(new(), own),
    }


def agreeing_trainings(dim):
    made = trainings(dim)
    losses = {mode: [mean_loss(each.step()) for _ in range(AGREEING_STEPS)] for mode, each in made.items() if mode != "single"}
    for mode, of_mode in losses.items():
        if any(abs(a - b) > TOLERANCE * b for a, b in zip(of_mode, losses["ddp"])):
            raise RuntimeError(f"the losses of {mode} at dim {dim} must be those of ddp, but got {losses}")
    made["single"].step()
    return made


def calls():
    made = {}

    def make_call(case, dim):
        if dim not in made:
            made[dim] = agreeing_trainings(dim)
        return made[dim][case].step

    return make_call


if __name__ == "__main__":
    sys.exit(serve_as_rank(__doc__, calls))
