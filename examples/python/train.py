"""Trains a model on a mesh, and the same model on one device: the losses are the same. The models are plain PyTorch; what is
parallel about them is said by the plans in ../plans.

    python train.py --model llama --mesh dp=2,tp=2 --sequence-parallel        # the ranks are threads of this process
    torchrun --nproc-per-node 2 train.py --mesh tp=2                          # the ranks are torchrun's processes
"""

from __future__ import annotations

import argparse
import copy
import math
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
import weft
from gpt2 import Gpt2
from llama import Llama
from torch import nn
from vit import Vit

PLANS = Path(__file__).resolve().parent.parent / "plans"
TOLERANCE = 1e-4


def sequences(step: int, rows: int = 8, length: int = 16, vocabulary: int = 64) -> tuple[torch.Tensor, torch.Tensor]:
    """Tokens, in which each follows from the one before, and the tokens that follow: a batch for every step."""
    tokens = [torch.randint(vocabulary, (rows,), generator=torch.Generator().manual_seed(step))]
    for _ in range(length):
        tokens.append((5 * tokens[-1] + 3) % vocabulary)
    tokens = torch.stack(tokens, 1)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def images(step: int, rows: int = 8, size: int = 16) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise of one of four colours, and which one that is: a batch for every step."""
    generator = torch.Generator().manual_seed(step)
    classes = torch.randint(4, (rows,), generator=generator)
    colours = torch.tensor([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]])
    return colours[classes].view(rows, 3, 1, 1) + torch.randn(rows, 3, size, size, generator=generator), classes


@dataclass(frozen=True)
class Example:
    make: Callable[[], nn.Module]
    batch: Callable[[int], tuple[torch.Tensor, torch.Tensor]]  # of a step: inputs and classes


EXAMPLES = {
    "llama": Example(Llama, sequences),
    "gpt2": Example(Gpt2, sequences),
    "vit": Example(Vit, images),
}


def plan_file(name: str, sequence_parallel: bool) -> Path:
    return PLANS / f"{name}{'_sequence' if sequence_parallel else ''}.json"


def make_model(name: str) -> nn.Module:
    torch.manual_seed(1)
    return EXAMPLES[name].make()


def make_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=0.01)


def loss_of(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten())


def training_step(model, optimizer, inputs, targets) -> torch.Tensor:
    loss = loss_of(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def losses_of_one_device(name: str, steps: int, device: str = "cpu") -> list[float]:
    model = make_model(name).to(device)
    optimizer = make_optimizer(model)
    losses = []
    for step in range(steps):
        inputs, targets = (values.to(device) for values in EXAMPLES[name].batch(step))
        losses.append(training_step(model, optimizer, inputs, targets).item())
    return losses


def distribute_batch(batch, mesh: weft.DeviceMesh):
    """The batch, sharded over dp. Every rank has made the global batch, so that nothing is sent."""
    placements = [weft.Shard(0) if dim == "dp" else weft.Replicate() for dim in mesh.mesh_dim_names]
    return tuple(weft.distribute_tensor(values, mesh, placements, src_data_rank=None) for values in batch)


def train_on_mesh(
    name: str, model: nn.Module, mesh: weft.DeviceMesh, plan: Path, steps: int
) -> tuple[list[float], weft.comm_debug]:
    """Makes the model parallel and trains it. The losses, and what the last step communicated."""
    weft.parallelize_module(model, mesh, plan)
    optimizer = make_optimizer(model)
    communication = weft.comm_debug()
    losses = []
    for step in range(steps):
        batch = distribute_batch(EXAMPLES[name].batch(step), mesh)
        with communication if step == steps - 1 else nullcontext():
            loss = training_step(model, optimizer, *batch)
        losses.append(loss.item())
    return losses, communication


def parse_mesh(text: str) -> dict[str, int]:
    """"dp=2,tp=2" -> {"dp": 2, "tp": 2}"""
    mesh = {}
    for part in text.split(","):
        name, equals, size = part.partition("=")
        if name not in ("dp", "tp") or not equals or not size.isdecimal() or int(size) == 0 or name in mesh:
            raise argparse.ArgumentTypeError(
                f"a mesh of dp (shards the batch) and tp (shards the model) is required, as in dp=2,tp=2, but got {text!r}."
            )
        mesh[name] = int(size)
    if "tp" not in mesh:
        raise argparse.ArgumentTypeError(f"the plans are for the mesh dim tp, but got {text!r}. Add tp=1.")
    return mesh


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(EXAMPLES), default="llama")
    parser.add_argument("--mesh", type=parse_mesh, default="dp=2,tp=2", metavar="dp=N,tp=M", help="default: dp=2,tp=2")
    parser.add_argument(
        "--sequence-parallel", action="store_true", help="shard norms and the activations between layers by the sequence"
    )
    parser.add_argument("--plan", type=Path, metavar="FILE", help="a plan of one's own instead of the model's")
    parser.add_argument("--steps", type=int, default=20, metavar="N", help="default: 20")
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="ranks that are threads may share one GPU; default: cpu"
    )
    options = parser.parse_args(arguments)
    if options.steps < 1:
        parser.error(f"--steps must be at least 1, but got {options.steps}.")
    if options.plan is not None and options.sequence_parallel:
        parser.error("--plan and --sequence-parallel both say which plan is meant: give one of them.")
    processes, ranks = int(os.environ.get("WORLD_SIZE", 1)), math.prod(options.mesh.values())
    if processes not in (1, ranks):
        parser.error(f"the mesh must have as many ranks as there are processes, {processes}, but has {ranks}.")
    options.plan = options.plan or plan_file(options.model, options.sequence_parallel)
    options.as_threads = processes == 1
    return options


def main(arguments: list[str] | None = None) -> int:
    options = parse_arguments(arguments)
    initial = make_model(options.model)  # before the ranks start: threads share one generator

    def on_rank(rank):
        mesh = weft.init_device_mesh(options.device, tuple(options.mesh.values()), mesh_dim_names=tuple(options.mesh))
        losses, communication = train_on_mesh(options.model, copy.deepcopy(initial), mesh, options.plan, options.steps)
        return rank, mesh, losses, communication

    if options.as_threads:
        rank, mesh, losses, communication = weft.run_on_ranks(math.prod(options.mesh.values()), on_rank)[0]
    else:
        rank, mesh, losses, communication = on_rank(int(os.environ["RANK"]))
    expected = losses_of_one_device(options.model, options.steps, options.device)
    farthest = max(abs(loss - one) for loss, one in zip(losses, expected))
    if rank == 0:
        print(f"{options.model} on {mesh}, {options.plan.name}\n  step     on mesh  one device  difference")
        for step, (loss, one) in enumerate(zip(losses, expected)):
            print(f"{step:6}  {loss:10.6f}  {one:10.6f}  {abs(loss - one):10.1e}")
        print(f"\nwhat rank 0 received in the last step\n{communication}")
    if not farthest <= TOLERANCE:
        print(f"[train] the losses must be those of one device to {TOLERANCE}, but differ by {farthest}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
