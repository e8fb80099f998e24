"""from_pretrained_program.py FOLDER: a program of transformers that names nothing of Weft, run by `python -m weft` on several
ranks. Loads the model in FOLDER by tp_plan="auto", computes, generates, takes a step, and saves it to FOLDER/trained."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Shard
from transformers import AutoModelForCausalLM

folder = sys.argv[1]
dist.init_process_group("gloo")
model = AutoModelForCausalLM.from_pretrained(folder, tp_plan="auto")
query = model.model.layers[0].self_attn.q_proj.weight
assert isinstance(query, DTensor) and query.placements == (Shard(0),)
tokens = torch.randint(3, 64, (2, 9), generator=torch.Generator().manual_seed(0))
generated = model.generate(tokens, do_sample=False, max_new_tokens=6)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
losses = []
for _ in range(2):
    loss = model(tokens, labels=tokens).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item())
model.save_pretrained(f"{folder}/trained")
if dist.get_rank() == 0:
    torch.save({"generated": generated, "losses": losses}, f"{folder}/found.pt")
dist.barrier()
dist.destroy_process_group()
