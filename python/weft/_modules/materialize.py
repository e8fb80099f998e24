"""materialize."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from weft import _C
from weft._modules.distribute import check_module


def _plain_device(module, device):
    """Where plain tensors go: to the given device, else to that of the first mesh, else where torch makes tensors."""
    if device is not None:
        return torch.device(device)
    for tensor in (*module.parameters(), *module.buffers()):
        if _C.is_dtensor(tensor):
            return torch.device(_C.spec(tensor).mesh.device_type)
    return torch.get_default_device()


def has_meta(module):
    return any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers()))


def _give_memory(module, device):
    """Allocates every tensor that is on meta. Returns these: text, where it is registered, name, tensor."""
    plain = {}  # by id, so that what was tied stays so
    made = []

    def with_memory(tensor):
        if _C.is_dtensor(tensor):
            _C._give_memory(tensor)
            return tensor
        if id(tensor) not in plain:
            empty = torch.empty_like(tensor, device=device)
            if isinstance(tensor, nn.Parameter):
                empty = nn.Parameter(empty, requires_grad=tensor.requires_grad)
            empty.__dict__.update(tensor.__dict__)
            plain[id(tensor)] = (empty, tensor)  # keeps the old one alive, so that no other tensor gets its id
        return plain[id(tensor)][0]

    for path, owner in module.named_modules():
        for tensors in (owner._parameters, owner._buffers):
            for name, tensor in tensors.items():
                if tensor is not None and tensor.is_meta:
                    tensors[name] = with_memory(tensor)
                    made.append((_described(owner, path, name), tensors, name, tensors[name]))
    return made


def _described(owner, path, name):
    return f"{path}.{name} of {type(owner).__name__}" if path else f"{name} of {type(owner).__name__}"


def _has_values(module, made):
    """Whether the module, with its children, has tensors and none of them was on meta: it keeps its values."""
    tensors = [*module.parameters(), *module.buffers()]
    return bool(tensors) and not any(id(tensor) in made for tensor in tensors)


def _initialize(module, init_fn, made, seen):
    """Children before their parents, as constructors run and as nn.Module.apply does."""
    if module in seen or _has_values(module, made):
        return
    seen.add(module)
    for child in module.children():
        _initialize(child, init_fn, made, seen)
    if init_fn is not None and init_fn(module) is not NotImplemented:
        return
    _initialize_module(module)


def _initialize_module(module, otherwise=None):
    """By the module's own method, else by `otherwise`."""
    for name in ("reset_parameters", "_reset_parameters"):
        if hasattr(module, name):
            getattr(module, name)()
            return
    if otherwise is not None:
        otherwise(module)


def _left_without_values(module, made, scope):
    for text, registered, name, tensor in made:
        # A tensor that was registered in its place since came with values.
        if registered.get(name) is tensor and not scope.has_written(tensor):
            yield text
    for path, owner in module.named_modules():
        for name, value in vars(owner).items():
            if isinstance(value, torch.Tensor) and value.is_meta:
                yield _described(owner, path, name)


def _children_first(module, seen):
    if module not in seen:
        seen.add(module)
        for child in module.children():
            yield from _children_first(child, seen)
        yield module


def prepare_to_load(where, module, names, device=None, init_fn=None):
    """Allocates what is on meta, for the entries `names` of the state_dict to be loaded afterwards, and gives values to the rest:
    buffers that are never saved, and missing parameters. What resets a module may reset tensors that are loaded, too, so it runs
    before them; it does not for tensors that had values."""
    made = _give_memory(module, _plain_device(module, device))
    registered = {**dict(module.named_parameters(remove_duplicate=False)), **dict(module.named_buffers(remove_duplicate=False))}
    state_dict = module.state_dict(keep_vars=True)
    loaded = {id(tensors[name]) for tensors in (registered, state_dict) for name in names if name in tensors}
    made = [entry for entry in made if id(entry[3]) not in loaded]
    if not made:
        return
    left = {id(tensor) for *_, tensor in made}
    all_made = left | loaded
    kept = [(tensor, tensor.detach().clone()) for tensor in registered.values() if id(tensor) not in all_made]
    own = getattr(module, "_init_weights", None)  # of transformers
    with torch.no_grad(), _C._InitializationScope(torch.Generator().manual_seed(0)) as scope:
        for each in _children_first(module, set()):
            tensors = (*each.parameters(), *each.buffers())
            if any(id(tensor) in left and not scope.has_written(tensor) for tensor in tensors):
                if init_fn is None or init_fn(each) is NotImplemented:
                    _initialize_module(each, own)
        missing = list(_left_without_values(module, made, scope))
    with torch.no_grad():
        for tensor, values in kept:
            tensor.copy_(values)
    if missing:
        raise ValueError(
            f"[{where}] every tensor must get its values, but {', '.join(missing)} is not in the folder and nothing else computes it. "
            "Give the module a reset_parameters that does, or load_pretrained an init_fn."
        )


def materialize(
    module: nn.Module,
    seed: int | torch.Generator,
    *,
    device: torch.device | str | None = None,
    init_fn: Callable[[nn.Module], Any] | None = None,
) -> nn.Module:
    """Gives a module that was built on the meta device its memory and its values: those of one device, bit for bit.

        with torch.device("meta"):
            model = Decoder()
        weft.distribute_module(model, mesh, shard)      # costs no memory
        weft.materialize(model, seed=7)                 # as torch.manual_seed(7); Decoder()

    The values are those that the modules' `reset_parameters` give after `torch.manual_seed(seed)` on the CPU, children
    before their parents, as constructors run. Each rank draws all random numbers and keeps those of its shards, a chunk at
    a time, so that peak memory is that of the shards; nothing is communicated. Distributed parameters stay the same
    objects; plain ones are replaced on `device`, as `nn.Module.to_empty` does, and what was tied stays tied. Modules that
    have their values already keep them.

    `init_fn(module)` is called for every module instead of its `reset_parameters`; it returns NotImplemented for those that
    it leaves to it. With a torch.Generator in the place of a seed, in the same state on every rank, numbers are drawn on
    from there. Raises, with their names, where tensors were left without values.
    """
    check_module("materialize", module)
    if isinstance(seed, torch.Generator):
        generator = seed
    else:
        generator = torch.Generator().manual_seed(seed)
    made = _give_memory(module, _plain_device(module, device))
    with torch.no_grad(), _C._InitializationScope(generator) as scope:
        _initialize(module, init_fn, {id(tensor) for *_, tensor in made}, set())
        missing = list(_left_without_values(module, made, scope))
    if missing:
        raise ValueError(
            f"[materialize] every tensor must be given its values, but nothing was written to {', '.join(missing)}. What a "
            "constructor computes is lost on meta: give the module a reset_parameters that computes it, or materialize an "
            "init_fn."
        )
    return module
