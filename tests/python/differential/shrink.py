"""Makes a failing program smaller while it fails in the same way."""

import dataclasses
import re
import time

from differential.compare import check

MAX_CHECKS = 300
MAX_SECONDS = 60  # programs whose ranks wait for each other take long


def smaller(program):
    """Candidates, the smallest first: without half of the steps, without one, with an input replicated."""
    count = len(program.steps)
    size = count // 2
    while size >= 1:
        for start in range(count - size, -1, -size):
            yield program.without(set(range(start, start + size)))
        size //= 2
    if program.mode != "grad":
        yield dataclasses.replace(program, mode="grad")
    for position, text in enumerate(program.steps):
        for found in re.finditer(r"S?S\(\d(, split_factor=2)?\)|P\('\w+'\)", text):
            changed = text[: found.start()] + "R" + text[found.end() :]
            yield dataclasses.replace(program, steps=(*program.steps[:position], changed, *program.steps[position + 1 :]))
        if ", requires_grad=True" in text:
            changed = text.replace(", requires_grad=True", "")
            yield dataclasses.replace(program, steps=(*program.steps[:position], changed, *program.steps[position + 1 :]))
    if program.beside:
        for beside in smaller(program.beside):
            yield dataclasses.replace(program, beside=beside)


def shrink(program, failure_kind):
    """The smallest program found that still fails with the same kind of failure."""
    checks, end = MAX_CHECKS, time.monotonic() + MAX_SECONDS
    found = True
    while found:
        found = False
        for candidate in smaller(program):
            if candidate == program or checks == 0 or time.monotonic() > end:
                continue
            checks -= 1
            if check(candidate).kind() == failure_kind:
                program, found = candidate, True
                break
    return program
