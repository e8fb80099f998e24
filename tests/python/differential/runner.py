"""Runs a program on one device and on ranks as threads."""

import contextlib
import dataclasses
import re
import threading


import torch
import weft
from differential.program import compiled, is_variable, names_of
from differential.sides import Distributed, Plain, metadata

TIMEOUT_SECONDS = 15  # of a collective: ranks that make different calls end by it


@dataclasses.dataclass
class Record:
    """How a program went: what each step made, what was read, and the error that ended it."""

    made: list  # per step, the metadata of the names that it assigned
    reads: list
    error: Exception | None = None
    text: str = ""  # of the error

    def stopped_at(self):
        return len(self.made) if self.error else None


def mode_of(program):
    return {
        "grad": contextlib.nullcontext, "no_grad": torch.no_grad, "inference": torch.inference_mode
    }[program.mode]()  # fmt: skip


def run_step(text, side, namespace, record):
    side.step = len(record.made)
    exec(compiled(text), namespace)
    record.made.append({name: metadata(namespace[name]) for name in sorted(names_of(text)[1]) if is_variable(name)})


def execute(program, side):
    """A Record of the program on a side; the first error ends it."""
    record, namespace = Record([], side.reads), side.namespace()
    with mode_of(program):
        for text in program.steps:
            try:
                run_step(text, side, namespace, record)
            except Exception as error:
                record.error, record.text = error, f"{type(error).__name__}: {error}"
                error.__traceback__ = None  # frames would keep the tensors of this rank alive
                break
    return record


def run_plain(program):
    return execute(program, Plain())


def run_plain_saving_copies(program):
    """As run_plain, but autograd saves copies: gradients belong to the values that forward saw."""
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: saved.clone(), lambda copy: copy):
        return execute(program, Plain())


def last_write_to_view(program, stop):
    """The last step before `stop` that writes to the local tensor of a view which shares its memory with a tensor that step
    `stop` reads; None where there is none. Backward and optimizers read tensors that they do not name."""
    side, found = Plain(), []
    namespace = side.namespace()
    inputs = {name for text in program.steps if " = tensor(" in text for name in names_of(text)[1]}
    with mode_of(program):
        for position, text in enumerate(program.steps[:stop]):
            names = [name for name in re.findall(r"local\((\w+)\)", text) if is_variable(name) and name not in inputs]
            found += [(position, namespace[name].untyped_storage().data_ptr()) for name in names]
            run_step(text, side, namespace, Record([], []))
    text = program.steps[stop]
    reads = [namespace.get(name) for name in names_of(text)[0]]
    memory = {value.untyped_storage().data_ptr() for value in reads if isinstance(value, torch.Tensor)}
    reads_others = re.search(r"backward|autograd\.grad|step\(\)", text)
    return next((position for position, place in reversed(found) if place in memory or reads_others), None)


def run_distributed(program):
    """A Record per rank, for the program and then for the one on its second thread."""

    def mesh(suffix=""):
        names = tuple(name + suffix for name in ("dp", "cp", "tp")[-len(program.mesh):])
        return weft.init_device_mesh("cpu", program.mesh, mesh_dim_names=names)

    def rank_program(rank):
        if program.beside is None:
            return [execute(program, Distributed(mesh()))]
        records, both = [None, None], [(program, mesh()), (program.beside, mesh("_beside"))]

        def run(which):
            records[which] = execute(both[which][0], Distributed(both[which][1]))

        second = threading.Thread(target=run, args=(1,))
        second.start()
        run(0)
        second.join()
        return records

    return list(zip(*weft.run_on_ranks(program.ranks(), rank_program, timeout=TIMEOUT_SECONDS)))


