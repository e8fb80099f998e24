"""The rank of the benchmark 'compile_one_rank': a training step of the models of host_step_rank.py under torch.compile.
Cases, whose size is the model's dim: a model of host_step_rank.py and a mode of torch.compile, as 'weft reduce-overhead'. Before
the first of a mode is timed, the losses of some steps of all models must agree.
"""

import sys
import time

import torch
import torch.distributed as dist
from host_step_rank import DEVICE, LENGTH, VOCABULARY, loss_of, models
from serve import serve

AGREEING_STEPS = 4


def finish():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


class Step:
    """A model under torch.compile, its optimizer and its batch."""

    def __init__(self, mode, model, compile_mode):
        torch.manual_seed(0)
        self.tokens = torch.randint(VOCABULARY, (1, LENGTH + 1), device=DEVICE)
        # PyTorch's fused step takes no mixture of plain tensors and DTensors, which its parallelize_module leaves.
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=mode != "dtensor")
        self.loss = torch.compile(lambda tokens: loss_of(model, tokens), fullgraph=True, mode=compile_mode)

    def __call__(self):
        loss = self.loss(self.tokens)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        finish()
        return loss

    def value(self):
        return self().detach().clone()  # the next run of a captured graph writes to the same memory


def agreeing_steps(compile_mode, dim):
    steps = {mode: Step(mode, model, compile_mode) for mode, model in models(dim).items()}
    losses = {mode: [step.value().item() for _ in range(AGREEING_STEPS)] for mode, step in steps.items()}
    for mode, of_mode in losses.items():
        torch.testing.assert_close(of_mode, losses["plain"], msg=lambda text, of=mode: f"the losses of {of}: {text}", rtol=1e-4, atol=0)
    return steps


def calls():
    steps = {}

    def make_call(case, dim):
        mode, _, compile_mode = case.partition(" ")
        if (compile_mode, dim) not in steps:
            steps[compile_mode, dim] = agreeing_steps(compile_mode, dim)
        return steps[compile_mode, dim][mode]

    return make_call


def main():
    if len(sys.argv) > 1:
        print(__doc__)
        return 0 if sys.argv[1] in ("-h", "--help") else 2
    torch.set_num_threads(1)
    dist.init_process_group("nccl" if DEVICE == "cuda" else "gloo")
    serve(calls(), finish, clock=time.perf_counter)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
