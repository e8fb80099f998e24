"""accelerate, and transformers' Trainer, which is built on it (trainer.py), give every process batches of its own and wrap the model to average
gradients. The ranks of a model that is parallel over all of them need neither: they are told that there is one process, so that
every rank gets the same batches. Each keeps its index, since the first one alone writes files and logs."""

import functools
import os
import sys

from weft import _C
from weft._groups import current_world
from weft._imports import when_imported

_are_one = False


def _tell(states):
    if _are_one:
        # Where accelerate takes no part in the processes of torchrun (without a device of its own), it counts each as the first.
        rank = current_world().rank
        index = {"process_index": rank, "local_process_index": int(os.environ.get("LOCAL_RANK", rank))}
        for kind in (states.PartialState, states.AcceleratorState):
            if kind._shared_state:
                kind._shared_state.update(index, num_processes=1, distributed_type=states.DistributedType.NO)


def _teach_states(states):
    init_of_accelerate = states.PartialState.__init__

    @functools.wraps(init_of_accelerate)
    def __init__(self, *args, **kwargs):
        init_of_accelerate(self, *args, **kwargs)
        _tell(states)

    states.PartialState.__init__ = __init__


def are_one() -> bool:
    """Whether the processes are one to accelerate."""
    return _are_one


def adopt(mesh: _C.DeviceMesh) -> bool:
    """Says that the processes are one to accelerate if a model is on all of them. Returns whether they are."""
    global _are_one
    if _C.in_world_scope() or mesh.size() == 1 or mesh.size() != current_world().size:
        return False
    if not _are_one:
        _are_one = True
        if "accelerate.state" in sys.modules:
            _tell(sys.modules["accelerate.state"])
    return True


def install():
    when_imported("accelerate.state", _teach_states)
