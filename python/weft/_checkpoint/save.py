"""save, AsyncSaver: checkpoints for any mesh and any number of ranks."""

from __future__ import annotations

import contextlib
import functools
import json
import os
from typing import Any

from weft import _C, _groups
from weft._checkpoint.named_state import NamedState, check_state

_FILE_BYTES = 5 << 30
_Path = str | os.PathLike


def _named(state):
    check_state("save", state)
    named = NamedState("save")
    named.add("", state)
    return named.tensors, {name: json.dumps(value) for name, value in named.values.items()}


def _saved(save_on_ranks, state, folder, *options):
    """An error of this rank is raised on all ranks, which would wait for it otherwise."""
    try:
        tensors, values = _named(state)
        path = os.fspath(folder)
    except Exception as error:
        with contextlib.suppress(ValueError):  # the same error, as all ranks raise it
            save_on_ranks({}, {}, str(folder), *options, error=str(error) or repr(error))
        raise
    save_on_ranks(tensors, values, path, *options)


def save(state: Any, folder: _Path, *, keep_last: int = 0, max_file_bytes: int = _FILE_BYTES) -> None:
    """Writes a checkpoint, which any mesh and any number of ranks can load.

        weft.save({"model": model, "optimizer": optimizer, "step": 100}, "run/step_100", keep_last=3)

    `state` is a dict of tensors (distributed or plain), modules, optimizers and other objects with a state_dict, numbers, texts,
    and lists, tuples and dicts of these; or one module. Every rank calls it. Each writes its own safetensors files, of at most
    `max_file_bytes`; what several ranks hold is written once. A plain tensor must be equal on all ranks that save it. The folder is a
    checkpoint when everything is on the disk; until then an older one in it stays as it was. With `keep_last` the oldest complete
    checkpoints next to it are removed, whose names differ in the number at the end alone. docs/checkpoints.md describes the files.
    """
    save_on_ranks = functools.partial(_C.save_checkpoint, _groups.current_world())
    _saved(save_on_ranks, state, folder, max_file_bytes, keep_last)


class AsyncSaver:
    """Saves while training goes on: save() returns when the tensors are copied, a thread writes the copies.

        saver = weft.AsyncSaver()
        for step in range(1000):
            ...
            saver.save({"model": model, "step": step}, f"run/step_{step}", keep_last=3)
        saver.wait()

    A save waits for the one before, and raises its error. All ranks make it; savers in use at the same time need different names.
    """

    def __init__(self, name: str = "async_save") -> None:
        self._saver = _C.AsyncSaver(_groups.current_world(), name)

    def save(self, state: Any, folder: _Path, *, keep_last: int = 0, max_file_bytes: int = _FILE_BYTES) -> None:
        def save_on_ranks(*arguments, error=None):
            self._saver.save(*arguments, error=error)
            if error is not None:
                self._saver.wait()  # raises it, so that the next save does not

        _saved(save_on_ranks, state, folder, max_file_bytes, keep_last)

    def wait(self) -> None:
        """Returns when the last save is complete, or raises its error."""
        self._saver.wait()

    @property
    def is_saving(self) -> bool:
        return self._saver.is_saving


def latest_checkpoint(folder: _Path) -> str | None:
    """The newest complete checkpoint among the folders in `folder`, or None."""
    return _C.latest_checkpoint(os.fspath(folder))
