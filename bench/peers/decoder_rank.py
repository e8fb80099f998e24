"""One rank of the benchmark 'training': a training step of the decoder in bench/python_decoder.py, started by bench/run.py.

Cases, whose size is the model's dim:
  weft, weft sequence           Weft's parallelize_module by the plans in bench/plans, without and with sequence parallelism
  megatron, megatron sequence   written by hand: linears that hold a shard, bare collectives of torch.distributed
  dtensor                       PyTorch's DTensor, by parallelize_module
  single                        the full model on every rank
All of them start from the same parameters; before the first is timed, their losses must agree.
"""

import copy
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import weft

from serve import serve_as_rank

BENCH = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))
from decoder_modes import to_dtensor, to_megatron  # noqa: E402
from python_decoder import Decoder, training_step  # noqa: E402

VOCABULARY, BLOCKS, HEADS, BATCH, LENGTH = 1024, 4, 8, 2, 64
AGREEING_STEPS = 6
TOLERANCE = 1e-5


def training(model, tokens, after_backward=lambda: None):
    """What takes a step and gives its loss."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    return lambda: training_step(model, optimizer, inputs, targets, after_backward)


def trainings(dim):
    """One per mode, all from the same parameters."""
    torch.manual_seed(0)
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))
    model = Decoder(VOCABULARY, dim, BLOCKS, HEADS)
    mesh = weft.init_device_mesh("cpu", (dist.get_world_size(),))

    def by_weft(plan):
        parallel = weft.parallelize_module(copy.deepcopy(model), mesh, BENCH / "plans" / plan)
        return training(parallel, weft.distribute_tensor(tokens, mesh))

    def by_hand(sequence):
        parallel, after_backward = to_megatron(copy.deepcopy(model), sequence)
        return training(parallel, tokens, after_backward)

    return {
        "weft": by_weft("decoder.json"),
        "weft sequence": by_weft("decoder_sequence.json"),
        "megatron": by_hand(sequence=False),
        "megatron sequence": by_hand(sequence=True),
        "dtensor": training(to_dtensor(copy.deepcopy(model)), tokens),
        "single": training(model, tokens),
    }


def agreeing_trainings(dim):
    steps = trainings(dim)
    losses = {mode: [step() for _ in range(AGREEING_STEPS)] for mode, step in steps.items()}
    for mode, of_mode in losses.items():
        if any(abs(a - b) > TOLERANCE * b for a, b in zip(of_mode, losses["single"])):
            raise RuntimeError(f"the losses of {mode} at dim {dim} must be those of single, but got {losses}")
    return steps


def calls():
    steps = {}

    def make_call(mode, dim):
        if dim not in steps:
            steps[dim] = agreeing_trainings(dim)
        return steps[dim][mode]

    return make_call


if __name__ == "__main__":
    sys.exit(serve_as_rank(__doc__, calls))
