"""train_program.py FOLDER DP TP: trains a toy Llama by Trainer, resumes that from its checkpoint, trains with options, and by
accelerate alone. The first rank writes what each logged to FOLDER/logs.json, and Trainer's model."""

import json
import os
import sys

import accelerate
import torch
import transformers
import weft
from architectures import ARCHITECTURES

folder, dp, tp = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
torch.manual_seed(0)
DATA = [{"input_ids": tokens, "labels": tokens} for tokens in torch.randint(3, 64, (16, 9))]


def make_model():
    model = ARCHITECTURES["Llama"].make()
    if dp * tp > 1:
        mesh = weft.init_device_mesh("cpu", (dp, tp), mesh_dim_names=("dp", "tp"))
        weft.parallelize_module(model, mesh, "auto")
        weft.shard_batch(model, mesh)
    return model


def accuracy(prediction):
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


# What computes with batches, masks and states outside of the model.
OPTIONS = {
    "optim": "adafactor",
    "label_smoothing_factor": 0.1,
    "gradient_checkpointing": True,
    "gradient_accumulation_steps": 2,
}


def train_by_trainer(resume=None, name="", **options):
    args = transformers.TrainingArguments(
        output_dir=folder + name,
        per_device_train_batch_size=4,
        per_device_eval_batch_size=4,
        max_steps=3,
        logging_steps=1,
        eval_strategy="steps",
        eval_steps=3,
        save_strategy="steps",
        save_steps=2,
        learning_rate=1e-2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        **options,
    )
    trainer = transformers.Trainer(
        model=make_model(), args=args, train_dataset=DATA, eval_dataset=DATA[:8], compute_metrics=accuracy
    )
    trainer.train(resume_from_checkpoint=resume)
    keys = ("loss", "grad_norm", "eval_loss", "eval_accuracy")
    return trainer, [entry[key] for entry in trainer.state.log_history for key in keys if key in entry]


def train_by_accelerate():
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    accelerator = accelerate.Accelerator(cpu=True)
    loader = torch.utils.data.DataLoader(DATA, batch_size=4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    losses = []
    for batch in loader:
        loss = model(**batch).loss
        accelerator.backward(loss)
        norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses += [accelerator.gather(loss.detach()).mean().item(), norm.item()]
    return losses


trainer, trained = train_by_trainer()
trainer.save_model(folder + "/model")
_, resumed = train_by_trainer(folder + "/checkpoint-2")
_, with_options = train_by_trainer(name="/options", **OPTIONS)
logs = {"trained": trained, "resumed": resumed, "accelerate": train_by_accelerate(), "options": with_options}
if int(os.environ.get("RANK", 0)) == 0:
    with open(folder + "/logs.json", "w") as file:
        json.dump(logs, file)
