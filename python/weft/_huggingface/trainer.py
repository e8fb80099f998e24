"""transformers' Trainer of a model that is parallel over all processes, which are one to it (accelerate.py). Checkpoints hold
global tensors, as those of one process, so that any number of ranks resumes from them."""

import functools
import inspect
import types

import torch
import torch.utils._pytree as pytree

from weft import _C, _containers
from weft._huggingface import accelerate as _accelerate
from weft._gather import detached_global_value
from weft._imports import when_imported
from weft._scopes import replicate_plain


def wait_for_all(mesh: _C.DeviceMesh) -> None:
    """Returns when every rank of the mesh has called it."""
    everyone = _C.zeros([mesh.size()], device_mesh=mesh, placements=[_C.parse_placement("S(0)")] * mesh.ndim)
    _C.full_tensor(everyone)


def _distribute_state(optimizer):
    """Gives the state of distributed parameters, which was read as global tensors, their layouts. A tensor of another shape
    is replicated; those of one element count as numbers."""
    for parameter, state in optimizer.state.items():
        if not _C.is_dtensor(parameter):
            continue
        mesh = _C.device_mesh(parameter)
        for name, value in state.items():
            if isinstance(value, torch.Tensor) and not _C.is_dtensor(value) and value.numel() > 1:
                is_alike = value.shape == parameter.shape
                placements = _C.placements(parameter) if is_alike else [_C.parse_placement("R")] * mesh.ndim
                state[name] = _C.distribute_tensor(value, mesh, placements, src_data_rank=None)


def _init(of_trainer, self, *args, **kwargs):
    """Trainer refuses to save the state of optimizers of sharded models, which it would not gather."""
    given = inspect.signature(of_trainer).bind_partial(self, *args, **kwargs).arguments.get("args")
    if given is None:
        return of_trainer(self, *args, **kwargs)
    save_only_model, given.save_only_model = given.save_only_model, True
    try:
        return of_trainer(self, *args, **kwargs)
    finally:
        given.save_only_model = save_only_model


def _sync_replicated_trainable_parameters(of_trainer, self, model):
    """Every rank computes the same gradients of plain parameters (adapters), from the same batches."""


def _save_optimizer_and_scheduler(of_trainer, self, output_dir):
    optimizer = self.optimizer
    state = pytree.tree_map(detached_global_value, optimizer.state_dict())
    self.optimizer = types.SimpleNamespace(state_dict=lambda: state)  # the first rank writes it
    try:
        of_trainer(self, output_dir)
    finally:
        self.optimizer = optimizer


def _load_optimizer_and_scheduler(of_trainer, self, checkpoint):
    of_trainer(self, checkpoint)
    _distribute_state(self.optimizer)


def _save_rng_state(of_trainer, self, output_dir):
    if self.args.should_save:  # one file, as of one process
        of_trainer(self, output_dir)


def _save_checkpoint(of_trainer, self, *args, **kwargs):
    of_trainer(self, *args, **kwargs)
    meshes = [_C.device_mesh(parameter) for parameter in self.model.parameters() if _C.is_dtensor(parameter)]
    for mesh in meshes[:1]:
        wait_for_all(mesh)  # other ranks may read the best one at once


def _with_replicated_plain(of_trainer, self, *args, **kwargs):
    """Batches, masks, and the states of optimizers that are no torch.optim's are the same on every rank, and plain: also where
    they meet distributed tensors outside of the model, as labels do where they are smoothed."""
    with replicate_plain():
        return of_trainer(self, *args, **kwargs)


def _prediction_step(of_trainer, self, *args, **kwargs):
    """Metrics are computed of global values."""
    return _containers.mapped(detached_global_value, of_trainer(self, *args, **kwargs))


_METHODS = {
    "__init__": _init,
    "_load_best_model": _with_replicated_plain,
    "_load_from_checkpoint": _with_replicated_plain,
    "_load_optimizer_and_scheduler": _load_optimizer_and_scheduler,
    "_save_checkpoint": _save_checkpoint,
    "_save_optimizer_and_scheduler": _save_optimizer_and_scheduler,
    "_save_rng_state": _save_rng_state,
    "_sync_replicated_trainable_parameters": _sync_replicated_trainable_parameters,
    "evaluate": _with_replicated_plain,
    "predict": _with_replicated_plain,
    "prediction_step": _prediction_step,
    "train": _with_replicated_plain,
}


def _taught(of_trainer, of_weft):
    @functools.wraps(of_trainer)
    def on_both(self, *args, **kwargs):
        return of_weft(of_trainer, self, *args, **kwargs) if _accelerate.are_one() else of_trainer(self, *args, **kwargs)

    return on_both


def _teach(trainer):
    for name, of_weft in _METHODS.items():
        setattr(trainer.Trainer, name, _taught(getattr(trainer.Trainer, name), of_weft))


def install():
    when_imported("transformers.trainer", _teach)
