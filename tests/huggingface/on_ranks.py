"""What the tests share: a model on one device, and its parallel form on ranks that are threads."""

import copy

import batches
import torch
import weft

TP = 2


def on_ranks(program, ranks=TP):
    """Runs `program(mesh)` on every rank; returns their results."""
    return weft.run_on_ranks(ranks, lambda rank: program(weft.init_device_mesh("cpu", (ranks,), mesh_dim_names=("tp",))))


def parallel(model, mesh, plan):
    return weft.parallelize_module(copy.deepcopy(model), mesh, plan)


def batch_of(architecture):
    return getattr(batches, architecture.batch)()


def global_value(value):
    return value.full_tensor() if weft.is_dtensor(value) else value


def expect_equal(computed, expected):
    """All of `computed`, one per rank, is what one device computes."""
    for each in computed:
        torch.testing.assert_close(each, expected, rtol=1e-4, atol=1e-5)


def forward(model, batch):
    with torch.no_grad():
        outputs = model(**batch)
    logits = outputs.logits if "logits" in outputs else outputs.logits_per_text
    return [global_value(outputs.loss), global_value(logits)]


def gradients(model, batch):
    model(**batch).loss.backward()
    return {name: global_value(p.grad) for name, p in model.named_parameters() if p.grad is not None}


def train(model, batch, steps=3):
    """Losses and gradient norms of some steps."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    curve = []
    for _ in range(steps):
        loss = model(**batch).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        curve += [global_value(loss.detach()), global_value(norm)]
    return curve


def generate(model, batch):
    prompt = {name: value for name, value in batch.items() if name != "labels"}
    return model.generate(**prompt, do_sample=False, min_new_tokens=10, max_new_tokens=10)
