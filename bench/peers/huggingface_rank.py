"""One rank of the benchmark 'huggingface': a training step of a Llama or of Weft's own decoder, started by bench/run.py.

Cases, whose size is the model's dim:
  weft      transformers' Llama under weft.parallelize_module(model, mesh, "auto")
  decoder   the decoder of bench/python_decoder.py under Weft, of the same sizes
  dtensor   transformers' Llama by from_pretrained(tp_plan="auto")
  shards    transformers' Llama with layers as large as a rank's shards, on plain tensors: what no communication could go below
The losses of the first and the third must be those of the model on a single device.
"""

import copy
import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from serve import serve_as_rank

BENCH = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))
from python_decoder import Decoder, training_step  # noqa: E402

VOCABULARY, LAYERS, HEADS, BATCH, LENGTH = 1024, 8, 8, 2, 64
STEPS, TOLERANCE = 4, 1e-5


class Logits(torch.nn.Module):
    """A model of transformers as one that returns its logits."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, tokens):
        return self.model(tokens).logits


def training(model, inputs, targets):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    return lambda: training_step(model, optimizer, inputs, targets)


def llama(dim, ranks=1):
    """On plain tensors, with the heads, features and classes that one of so many ranks has."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY // ranks,
        hidden_size=dim,
        intermediate_size=4 * dim // ranks,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS // ranks,
        head_dim=dim // HEADS,
        max_position_embeddings=LENGTH,
        tie_word_embeddings=False,
        use_cache=False,
        attn_implementation="sdpa",
    )
    torch.manual_seed(0)
    return LlamaForCausalLM(config)


def by_torch(model):
    with tempfile.TemporaryDirectory() as folder:
        folders = [folder]
        dist.broadcast_object_list(folders)
        if dist.get_rank() == 0:
            model.save_pretrained(folder)
        dist.barrier()
        parallel = type(model).from_pretrained(folders[0], tp_plan="auto")
        dist.barrier()
    return parallel


def make_training(mode, dim):
    torch.manual_seed(0)
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH + 1))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    if mode == "decoder":
        import weft

        mesh = weft.init_device_mesh("cpu", (dist.get_world_size(),))
        decoder = weft.parallelize_module(Decoder(VOCABULARY, dim, LAYERS, HEADS), mesh, BENCH / "plans/decoder.json")
        return training(decoder, *(weft.distribute_tensor(each, mesh) for each in (inputs, targets)))
    if mode == "shards":
        model = llama(dim, dist.get_world_size())
        model.set_input_embeddings(torch.nn.Embedding(VOCABULARY, dim))  # the plan leaves it on every rank
        return training(Logits(model), inputs, targets % model.config.vocab_size)
    model = llama(dim)
    single = training(Logits(copy.deepcopy(model)), inputs, targets)
    if mode == "weft":
        import weft

        mesh = weft.init_device_mesh("cpu", (dist.get_world_size(),))
        parallel = weft.parallelize_module(model, mesh, "auto")
        step = training(Logits(parallel), *(weft.distribute_tensor(each, mesh) for each in (inputs, targets)))
    else:
        step = training(Logits(by_torch(model)), inputs, targets)
    expected, losses = [single() for _ in range(STEPS)], [step() for _ in range(STEPS)]
    if any(abs(a - b) > TOLERANCE * b for a, b in zip(losses, expected)):
        raise RuntimeError(f"the losses of {mode} must be those of a single device, {expected}, but are {losses}")
    return step


if __name__ == "__main__":
    sys.exit(serve_as_rank(__doc__, lambda: make_training))
