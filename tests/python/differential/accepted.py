"""Errors by which Weft refuses what plain tensors can do; each says what to do instead."""

import re

ACCEPTED = [
    r"\[aten::\w+\] argument 'out' must have the shape of the result, .*: a distributed tensor is not resized",
    r"is a view that had to be redistributed, so that writing to it would not change the tensor it was taken of",
    r"is a view that had to be redistributed, and the tensor it was taken of has changed since",
    r"\[aten::\w+\] cannot change .* in place\. Make a new distributed tensor",
    r"Numbers cannot be written to a partial value; redistribute it first",
    r"\[plan\] a shard cannot become a partial value, .* Redistribute to R first",
    # Of `v.data.copy_(v)` plain tensors see that nothing is to be done, and do not ask whether v was expanded.
    r"elements in different places of memory are required of a tensor that is written to, but got the expanded",
    # Torch does not count the writes of a fused optimizer, and those of all others; Weft counts them all.
    r"A view was created in no_grad mode and its base or another view of its base has been modified inplace",
    # A list of positions, x[[0, 2]] = 1, becomes a plain tensor before Weft sees it.
    r"distributed and plain tensors cannot be mixed, but argument 'indices' is a plain tensor",
]
WRITE_TO_COPY = re.compile(
    r"(is|has) a view that had to be redistributed, and to_local\(\) or full_tensor\(\) of such a view was written to"
)
LOST = re.compile(r"INTERNAL ASSERT|please report a bug|timed out|DistBackendError|NameError")


def kind_of(text):
    """The error's first line without the operator, numbers, shapes and specs of this one program."""
    line = text.split("\n")[0]
    line = re.sub(r"\w+\[[\d,|*]*\] @ \S+ \{[^}]*\}", "<spec>", line)
    line = re.sub(r"aten::\w+", "aten::*", line)
    line = re.sub(r"\[[-\d, |]*\]|\([-\d, ]+\)|\{[^}]*\}", "<list>", line)
    return re.sub(r"-?\d+(\.\d+)?", "N", line)[:200]


def is_lost(text):
    """Whether an error is never right, not even where plain tensors raise too."""
    return LOST.search(text) is not None


def is_about_saved_values(text):
    """Plain tensors refuse a gradient whose saved input was written to; a rank may have saved a gathered copy."""
    return "modified by an inplace operation" in text


def is_about_shared_memory(text):
    """Plain tensors refuse to write where they read; a rank may read a copy."""
    return "refer to a single memory location" in text


def is_about_copied_view(text):
    """Whether a rank says that the program has written to the to_local() of a view that had to be copied."""
    return WRITE_TO_COPY.search(text) is not None


def is_accepted(text):
    return any(re.search(pattern, text) for pattern in ACCEPTED)
