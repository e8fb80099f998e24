"""One rank of the benchmark 'host_step', on a mesh of one: forward and backward of the decoder in bench/python_decoder.py,
whose linears a plan makes parallel. Inputs and outputs of these are plain tensors, as by default.

Cases, whose size is the model's dim:
  plain      the model itself
  weft       Weft's parallelize_module
  dtensor    PyTorch's parallelize_module
With ' forward' after the name, forward alone; with ' enter' or ' leave', BATCH calls of the hook before or after the forward
of one column linear, with gradients. Before the first is timed, the losses and gradients of all must agree.
"""

import copy
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
import weft
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor import parallel as pytorch

from serve import serve

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from host_step import BATCH  # noqa: E402
from python_decoder import COLWISE, ROWWISE, Decoder  # noqa: E402

DEVICE = os.environ.get("WEFT_BENCH_DEVICE", "cpu")
VOCABULARY, BLOCKS, HEADS, LENGTH = 256, 12, 8, 128


def plan_of(model, styles):
    """Column linears and, after them, row linears; `styles` is the package that has the styles."""
    plan = {}
    for path, _ in model.named_modules():
        name = path.rpartition(".")[2]
        if name in COLWISE[:-1]:
            plan[path] = styles.ColwiseParallel()
        elif name in ROWWISE:
            plan[path] = styles.RowwiseParallel()
    return plan


def models(dim):
    """One per mode, all with the same parameters."""
    torch.manual_seed(0)
    model = Decoder(VOCABULARY, dim, BLOCKS, HEADS).to(DEVICE)
    by_weft, by_dtensor = copy.deepcopy(model), copy.deepcopy(model)
    weft.parallelize_module(by_weft, weft.init_device_mesh(DEVICE, (1,)), plan_of(model, weft))
    pytorch.parallelize_module(by_dtensor, init_device_mesh(DEVICE, (1,)), plan_of(model, pytorch))
    return {"plain": model, "weft": by_weft, "dtensor": by_dtensor}


def loss_of(model, tokens):
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def step(model, tokens):
    model.zero_grad(set_to_none=True)
    loss = loss_of(model, tokens)
    loss.backward()
    return loss


def crossing(model, dim, kind):
    """BATCH calls of one hook."""
    linear = next(of for path, of in model.named_modules() if path.rpartition(".")[2] == COLWISE[0])
    inputs = (torch.ones(1, LENGTH, dim, device=DEVICE, requires_grad=True),)
    (enter,), (leave,) = linear._forward_pre_hooks.values(), linear._forward_hooks.values()
    entered = enter(linear, inputs)
    output = linear.forward(*entered)

    def call():
        for _ in range(BATCH):
            if kind == "enter":
                enter(linear, inputs)
            else:
                leave(linear, entered, output)

    return call


def local(tensor):
    return tensor.to_local() if isinstance(tensor, DTensor) or weft.is_dtensor(tensor) else tensor


def check_agreement(by_mode, tokens):
    losses = {mode: step(model, tokens) for mode, model in by_mode.items()}
    for mode, model in by_mode.items():
        torch.testing.assert_close(losses[mode], losses["plain"], msg=lambda text, of=mode: f"the loss of {of}: {text}")
        for (name, parameter), expected in zip(model.named_parameters(), by_mode["plain"].parameters()):
            torch.testing.assert_close(
                local(parameter.grad), expected.grad, msg=lambda text, of=f"{name} of {mode}": f"the gradient of {of}: {text}"
            )


def calls():
    made = {}

    def make_call(case, dim):
        if dim not in made:
            tokens = torch.randint(VOCABULARY, (1, LENGTH + 1), device=DEVICE)
            made[dim] = models(dim), tokens
            check_agreement(*made[dim])
        by_mode, tokens = made[dim]
        mode, _, part = case.partition(" ")
        if part in ("enter", "leave"):
            return crossing(by_mode[mode], dim, part)
        of_part = loss_of if part == "forward" else step
        return lambda: of_part(by_mode[mode], tokens)

    return make_call


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    torch.set_num_threads(1)
    dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo")
    if DEVICE == "cuda":
        # Autograd has a thread of its own per GPU, so that backward is not in the CPU time of one thread.
        serve(calls(), torch.cuda.synchronize, clock=time.perf_counter)
    else:
        serve(calls(), lambda: None, clock=time.process_time)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
