"""One rank of the benchmark 'compile': the decoder of bench/python_decoder.py with its loss under torch.compile(fullgraph=True),
tensor-parallel, the optimizer outside of it. Started by bench/run.py.

Cases, whose size is the model's dim:
  weft      Weft's parallelize_module
  local     written by hand: linears that hold a shard, functional collectives (bench/peers/compiled_modes.py)
  dtensor   PyTorch's DTensor, by parallelize_module
  compile weft, compile local, compile dtensor
            the first forward and backward of a new model, with nothing in Inductor's cache
All of them start from the same parameters; before the first is timed, their losses must agree with those of the full model.
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
import weft
from serve import serve_as_rank
from torch._inductor.utils import fresh_cache

BENCH = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))
from compiled_modes import to_local  # noqa: E402
from decoder_modes import to_dtensor  # noqa: E402
from python_decoder import Decoder  # noqa: E402

VOCABULARY, BLOCKS, HEADS, BATCH, LENGTH = 1024, 4, 8, 2, 64
AGREEING_STEPS = 4
TOLERANCE = 1e-5
MODES = ("weft", "local", "dtensor")


def to_weft(model, mesh):
    plan = json.loads((BENCH / "plans/decoder.json").read_text())
    # As the other sides do: the loss is computed of gathered logits.
    plan["logits"] = {"style": "colwise", "output": "R"}
    return weft.parallelize_module(model, mesh, plan)


class Step:
    """A model under torch.compile, and its batch."""

    def __init__(self, mode, dim, mesh):
        torch.manual_seed(0)
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))
        model = Decoder(VOCABULARY, dim, BLOCKS, HEADS)
        if mode == "weft":
            model, tokens = to_weft(model, mesh), weft.distribute_tensor(tokens, mesh)
        elif mode == "local":
            model = to_local(model, dist.group.WORLD)
        elif mode == "dtensor":
            model = to_dtensor(model)
        self.inputs, self.targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
        # PyTorch's fused step takes no mixture of plain tensors and DTensors, which its parallelize_module leaves.
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=mode != "dtensor")

        def loss(inputs, targets):
            return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())

        self.loss = loss if mode == "single" else torch.compile(loss, fullgraph=True)

    def gradients(self):
        loss = self.loss(self.inputs, self.targets)
        loss.backward()
        return loss

    def __call__(self):
        loss = self.gradients()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


def agreeing_steps(dim, mesh):
    steps = {mode: Step(mode, dim, mesh) for mode in (*MODES, "single")}
    losses = {mode: [step() for _ in range(AGREEING_STEPS)] for mode, step in steps.items()}
    for mode, of_mode in losses.items():
        if any(abs(a - b) > TOLERANCE * b for a, b in zip(of_mode, losses["single"])):
            raise RuntimeError(f"the losses of {mode} at dim {dim} must be those of the full model, but got {losses}")
    return steps


def compiling(mode, dim, mesh):
    """What compiles a new model and runs it forward and backward once."""

    def call():
        torch._dynamo.reset()
        step = Step(mode, dim, mesh)
        with fresh_cache():
            return step.gradients().item()

    return call


def calls():
    mesh = weft.init_device_mesh("cpu", (dist.get_world_size(),))
    steps = {}

    def make_call(case, dim):
        action, _, mode = case.rpartition(" ")
        if action == "compile":
            return compiling(mode, dim, mesh)
        if dim not in steps:
            steps[dim] = agreeing_steps(dim, mesh)
        return steps[dim][mode]

    return make_call


if __name__ == "__main__":
    sys.exit(serve_as_rank(__doc__, calls))
