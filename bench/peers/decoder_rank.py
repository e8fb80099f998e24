"""One rank of the benchmark 'python': a training step of the decoder in bench/python_decoder.py, started by bench/run.py.

Cases, whose size is the model's dim:
  weft      Weft's tensors as parameters
  dtensor   PyTorch's DTensor, by parallelize_module
  megatron  written by hand: linears that hold their part, bare collectives of torch.distributed around them
  single    the whole model on every rank
All of them start from the same parameters; before the first is timed, their losses must agree.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from serve import serve

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from python_decoder import COLUMN_CUT, ROW_CUT, Attention, Decoder, FeedForward, distribute, training_step  # noqa: E402

VOCABULARY, BLOCKS, HEADS, BATCH, LENGTH = 1024, 4, 8, 2, 64
AGREEING_STEPS = 6
TOLERANCE = 1e-5


class EnterParallel(torch.autograd.Function):
    """The same on every rank; gradients are added up."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        dist.all_reduce(gradient)
        return gradient


class LeaveParallel(torch.autograd.Function):
    """Terms on every rank, added up."""

    @staticmethod
    def forward(ctx, x):
        x = x.contiguous()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class GatherLastDim(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts, -1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.chunk(dist.get_world_size(), -1)[dist.get_rank()].contiguous()


class Parallel(nn.Module):
    """A module whose linears hold their part: inputs enter once, what comes out is added up or gathered."""

    def __init__(self, module, leave):
        super().__init__()
        self.module = module
        self.leave = leave

    def forward(self, x):
        return self.leave(self.module(EnterParallel.apply(x)))


def to_megatron(model):
    for name, module in model.named_modules():
        last = name.rpartition(".")[2]
        if last in COLUMN_CUT + ROW_CUT:
            part = module.weight.data.chunk(dist.get_world_size(), 0 if last in COLUMN_CUT else 1)[dist.get_rank()]
            module.weight = nn.Parameter(part.clone())
    for block in model.blocks:
        block.attention = Parallel(block.attention, LeaveParallel.apply)
        block.feed_forward = Parallel(block.feed_forward, LeaveParallel.apply)
    model.logits = Parallel(model.logits, GatherLastDim.apply)
    return model


def to_dtensor(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    plan = {}
    for name, _ in model.named_modules():
        last = name.rpartition(".")[2]
        if last in COLUMN_CUT:
            plan[name] = ColwiseParallel(output_layouts=Replicate()) if last == "logits" else ColwiseParallel()
        elif last in ROW_CUT:
            plan[name] = RowwiseParallel()
    return parallelize_module(model, init_device_mesh("cpu", (dist.get_world_size(),)), plan)


class Training:
    """A model under one of the modes, with what it is trained on."""

    def __init__(self, mode, dim):
        torch.manual_seed(1)
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))
        torch.manual_seed(0)
        self.model = Decoder(VOCABULARY, dim, BLOCKS, HEADS)
        if mode == "weft":
            import weft

            mesh = weft.init_device_mesh("cpu", (dist.get_world_size(),))
            self.model = distribute(self.model, mesh)
            tokens = weft.distribute_tensor(tokens, mesh)
        elif mode == "dtensor":
            self.model = to_dtensor(self.model)
        elif mode == "megatron":
            self.model = to_megatron(self.model)
        self.inputs, self.targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def step(self):
        return training_step(self.model, self.optimizer, self.inputs, self.targets)


def agreeing_trainings(dim):
    trainings = {mode: Training(mode, dim) for mode in ("single", "megatron", "dtensor", "weft")}
    losses = {mode: [training.step() for _ in range(AGREEING_STEPS)] for mode, training in trainings.items()}
    for mode, of_mode in losses.items():
        if any(abs(a - b) > TOLERANCE * b for a, b in zip(of_mode, losses["single"])):
            raise RuntimeError(f"the losses of {mode} at dim {dim} must be those of single, but got {losses}")
    return trainings


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    trainings = {}

    def make_call(mode, dim):
        if dim not in trainings:
            trainings[dim] = agreeing_trainings(dim)
        return trainings[dim][mode].step

    serve(make_call, dist.barrier)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
