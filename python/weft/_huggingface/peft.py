"""peft's adapters of a parallel model are plain tensors, the same on every rank, also where they are merged into its weights."""

import functools

from weft._imports import when_imported
from weft._scopes import replicate_plain


def _with_replicated_plain(method):
    @functools.wraps(method)
    def on_both(self, *args, **kwargs):
        with replicate_plain():
            return method(self, *args, **kwargs)

    return on_both


def _teach(tuners_utils):
    tuner = tuners_utils.BaseTuner
    for name in ("merge_and_unload", "merge_adapter", "unmerge_adapter"):
        setattr(tuner, name, _with_replicated_plain(getattr(tuner, name)))


def install():
    when_imported("peft.tuners.tuners_utils", _teach)
