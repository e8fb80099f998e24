"""Tells of layers and experts that a plan could shard and does not name: every rank holds and computes all of them."""

from __future__ import annotations

import collections
import re
import warnings

from torch.nn.modules.conv import _ConvNd

_WORTH_TELLING = 0.1  # of the model's parameters
_MOST_NAMES = 6


def _pattern(path):
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", path)


def _is_stack_of_weights(module, parameter):
    """Whether a parameter is the weights of several layers, as those of experts are."""
    return parameter.dim() >= 3 and parameter.is_floating_point() and not isinstance(module, _ConvNd)


def warn_of_unsharded_layers(modules, settled):
    """Of every module itself, its path, its kind, and what lay_out says. An earlier plan distributed the parameters in `settled`."""
    sizes, sharded, named, unsharded = {}, set(), set(), {}
    for module, path, kind, (placements, _, _, _, are_named, _) in modules:
        parameters = [(name, parameter) for name, parameter in module._parameters.items() if parameter is not None]
        for (name, parameter), placed, is_named in zip(parameters, placements, are_named):
            if id(parameter) in settled:
                continue
            sizes[id(parameter)] = parameter.numel()
            if placed is not None and any(placement.is_shard() for placement in placed):
                sharded.add(id(parameter))
            elif is_named:
                named.add(id(parameter))
            elif name == "weight" and kind != "other":
                unsharded[id(parameter)] = path
            elif _is_stack_of_weights(module, parameter):
                unsharded[id(parameter)] = f"{path}.{name}"
    unsharded = {identity: path for identity, path in unsharded.items() if identity not in sharded | named}
    share = sum(sizes[identity] for identity in unsharded) / max(sum(sizes.values()), 1)
    if not sharded or share < _WORTH_TELLING:
        return
    names = collections.Counter(map(_pattern, unsharded.values()))
    listed = [f"{name} ({count})" if count > 1 else name for name, count in list(names.items())[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        listed.append(f"{len(names) - _MOST_NAMES} more")
    warnings.warn(
        f"[parallelize_module] the plan does not name {len(unsharded)} layers with {share:.0%} of the parameters, which every rank "
        f'holds and computes: {", ".join(listed)}. Give them a style, or "replicate" if that is meant.',
        stacklevel=3,
    )
