"""ExplicitRedistributionContext and implicit_replication, as in torch.distributed.tensor."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from weft import _C
from weft._scopes import replicate_plain

# PyTorch's, so that what listens to it hears of Weft's tensors too.
_logger = logging.getLogger("torch.distributed.tensor._utils")


class ExplicitRedistributionContext:
    """In it an operator that has to redistribute an operand raises, or warns with mode="warn"; redistribute() is allowed.

        with weft.ExplicitRedistributionContext():
            y = model(x)
            with weft.ExplicitRedistributionContext(enable=False):
                z = head(y)

    Redistributions that communicate nothing, such as slicing a replicated tensor, count with strict=True alone.
    """

    def __init__(self, enable: bool = True, strict: bool = False, mode: Literal["raise", "warn"] = "raise"):
        if mode not in ("raise", "warn"):
            raise RuntimeError(f'[ExplicitRedistributionContext] mode must be "raise" or "warn", but got {mode!r}.')
        self._watch = _C.redistribution_watch(enable, strict, _logger.warning if mode == "warn" else None)

    def __enter__(self) -> ExplicitRedistributionContext:
        self._watch.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._watch.__exit__(*error)


@contextmanager
def implicit_replication() -> Iterator[None]:
    """In it plain tensors among distributed ones count as replicated: the same on every rank. As replicate_plain()."""
    with replicate_plain():
        yield
