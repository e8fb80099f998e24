"""A training step of Hugging Face's Llama of eight layers, tensor-parallel over two processes on gloo by the model's
own plan: under Weft against Weft's own decoder of the same sizes, and against from_pretrained(tp_plan="auto"), which is
PyTorch's DTensor; with Weft's shared memory between the processes, and with gloo alone. Next to both are steps of plain
layers as large as a rank's shards, without communication. The losses of both models of Hugging Face must agree with those of a
single device."""

from contextlib import ExitStack

from ranks import Side, interleaved_medians, progress, python_peer, started
from rows import Row, limited_table

DIM = 512
LIMITS = {"decoder": 1.05, "dtensor": 0.6}


def run(settings):
    with ExitStack() as stack:
        peer = python_peer(settings.peers / "huggingface_rank.py")
        by_weft = started(stack, peer, 2)
        by_gloo = started(stack, ["env", "WEFT_SHARED_MEMORY=0", *peer], 2)  # collectives as between hosts, as DTensor's are
        by_torch = started(stack, peer, 2)  # processes that do not import weft
        sides = {(ranks, mode): Side(ranks, mode) for ranks in (by_weft, by_gloo) for mode in ("weft", "decoder")}
        sides |= {(by_torch, mode): Side(by_torch, mode) for mode in ("dtensor", "shards")}
        progress(f"huggingface: the losses at dim {DIM}, then the steps")
        medians = interleaved_medians(sides, DIM, rounds=10, calls=3)
        for case, ranks in ((f"Llama, dim {DIM}", by_weft), (f"Llama, dim {DIM}, gloo alone", by_gloo)):
            for name, of_peer in (("decoder", ranks), ("dtensor", by_torch), ("shards", by_torch)):
                yield Row("huggingface", case, medians[ranks, "weft"], medians[of_peer, name], name)


def table(all_rows):
    return limited_table(all_rows, LIMITS)
