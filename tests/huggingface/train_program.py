"""train_program.py FOLDER DP TP: trains a toy Llama by Trainer; the first rank writes losses to FOLDER/losses.json, and the model."""

import json
import os
import sys

import torch
import transformers
import weft
from architectures import ARCHITECTURES

folder, dp, tp = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
model = ARCHITECTURES["Llama"].make()
torch.manual_seed(0)
data = [{"input_ids": tokens, "labels": tokens} for tokens in torch.randint(3, 64, (16, 9))]
args = transformers.TrainingArguments(
    output_dir=folder,
    per_device_train_batch_size=4,
    per_device_eval_batch_size=4,
    max_steps=3,
    logging_steps=1,
    eval_strategy="steps",
    eval_steps=3,
    save_strategy="no",
    learning_rate=1e-2,
    report_to=[],
    use_cpu=True,
    disable_tqdm=True,
)
if dp * tp > 1:
    mesh = weft.init_device_mesh("cpu", (dp, tp), mesh_dim_names=("dp", "tp"))
    weft.parallelize_module(model, mesh, "auto")
    weft.shard_batch(model, mesh)
trainer = transformers.Trainer(model=model, args=args, train_dataset=data, eval_dataset=data[:8])
trainer.train()
trainer.save_model(folder + "/model")
losses = [entry[key] for entry in trainer.state.log_history for key in ("loss", "grad_norm", "eval_loss") if key in entry]
if int(os.environ.get("RANK", 0)) == 0:
    with open(folder + "/losses.json", "w") as file:
        json.dump(losses, file)
