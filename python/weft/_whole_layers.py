"""Tells of layers that a plan could shard and does not name: every rank holds and computes all of them."""

from __future__ import annotations

import collections
import math
import re
import warnings

_WORTH_TELLING = 0.1  # of the model's parameters
_MOST_NAMES = 6


def _pattern(path):
    return re.sub(r"(?<=\.)\d+(?=\.|$)", "*", path)


def warn_of_whole_layers(modules):
    """Of every module its (path, kind, [(name, shape, identity)]), and its (placements, hooks, gives_plain_shards,
    is_named) as lay_out says."""
    sizes, sharded, whole = {}, set(), {}
    for (path, kind, parameters), (placements, _, _, is_named) in modules:
        for (name, shape, identity), placed in zip(parameters, placements):
            sizes[identity] = math.prod(shape)
            if placed is not None and any(placement.is_shard() for placement in placed):
                sharded.add(identity)
            elif name == "weight" and kind != "other" and not is_named:
                whole[identity] = path
    whole = {identity: path for identity, path in whole.items() if identity not in sharded}
    share = sum(sizes[identity] for identity in whole) / max(sum(sizes.values()), 1)
    if not sharded or share < _WORTH_TELLING:
        return
    names = collections.Counter(map(_pattern, whole.values()))
    listed = [f"{name} ({count})" if count > 1 else name for name, count in list(names.items())[:_MOST_NAMES]]
    if len(names) > _MOST_NAMES:
        listed.append(f"{len(names) - _MOST_NAMES} more")
    warnings.warn(
        f"[parallelize_module] the plan does not name {len(whole)} layers with {share:.0%} of the parameters, which every rank "
        f'holds and computes: {", ".join(listed)}. Give them a style, or "replicate" if that is meant.',
        stacklevel=3,
    )
