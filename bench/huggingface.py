"""A training step of Hugging Face's Llama of eight layers, tensor-parallel over two processes on gloo by the model's
own plan: under Weft against Weft's own decoder of the same sizes, and against from_pretrained(tp_plan="auto"), which is
PyTorch's DTensor. The losses of both models of Hugging Face must agree with those of a single device."""

from contextlib import ExitStack

from ranks import Side, interleaved_medians, progress, python_peer, started
from rows import Row, limited_table

DIM = 512
LIMITS = {"decoder": 1.05, "dtensor": 0.6}


def run(settings):
    with ExitStack() as stack:
        script = settings.peers / "huggingface_rank.py"
        by_weft = started(stack, python_peer(script), 2)
        by_torch = started(stack, python_peer(script), 2)  # processes that do not import weft
        sides = {mode: Side(by_weft, mode) for mode in ("weft", "decoder")} | {"dtensor": Side(by_torch, "dtensor")}
        progress(f"huggingface: the losses at dim {DIM}, then the steps")
        medians = interleaved_medians(sides, DIM, rounds=10, calls=3)
        for peer in LIMITS:
            yield Row("huggingface", f"Llama, dim {DIM}", medians["weft"], medians[peer], peer)


def table(all_rows):
    return limited_table(all_rows, LIMITS)
