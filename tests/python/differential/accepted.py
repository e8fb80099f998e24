"""Errors by which Weft refuses what plain tensors can do, and which say what to do instead."""

import re

INTERNAL = re.compile(r"INTERNAL ASSERT|please report|Segmentation|timed out|timeout|did not|out of memory|NameError")
WEFT_FORM = re.compile(r"^\w+: \[[^\]]+\] ")


def kind_of(text):
    """The error's first line without the numbers, shapes, specs and names of this one program."""
    line = text.split("\n")[0]
    line = re.sub(r"[a-z]+\d+\[[\d,]*\] @ \S+ \{[^}]*\}|bool\[[\d,]*\] @ \S+ \{[^}]*\}", "<spec>", line)
    line = re.sub(r"\[[-\d, ]*\]|\([-\d, ]+\)|\{[^}]*\}", "<list>", line)
    return re.sub(r"-?\d+(\.\d+)?", "N", line)[:160]


def is_internal(text):
    return INTERNAL.search(text) is not None


def is_accepted(text):
    return WEFT_FORM.search(text) is not None and not is_internal(text)
