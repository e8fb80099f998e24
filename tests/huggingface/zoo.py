"""zoo.py [--write docs/huggingface.md]: the table of architectures and what works with each, on two ranks.

    python tests/huggingface/zoo.py --write docs/huggingface.md
"""

import argparse
import copy
import pathlib
import re

import torch
import weft
from architectures import ARCHITECTURES
from on_ranks import batch_of, expect_equal, forward, generate, gradients, on_ranks, parallel, train

YES, NONE = "yes", "–"
BEGIN, END = "<!-- made by tests/huggingface/zoo.py -->\n", "<!-- end -->\n"
DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "huggingface.md"


def _computes(compute):
    def check(architecture):
        model, batch = architecture.make(), batch_of(architecture)
        computed = on_ranks(lambda mesh: compute(parallel(model, mesh, architecture.plan), batch))
        expect_equal(computed, compute(copy.deepcopy(model), batch))
        return YES

    return check


def _generates(architecture):
    model, batch = architecture.make(), batch_of(architecture)
    if not architecture.generates:
        assert not hasattr(model, "generate")
        return NONE
    for tokens in on_ranks(lambda mesh: generate(parallel(model, mesh, architecture.plan), batch)):
        assert torch.equal(tokens, generate(model, batch))
    return YES


def _communicates(architecture):
    """How many all-reduces there are, or why there is more than a program by hand would communicate."""
    model, batch = architecture.make(), batch_of(architecture)

    def program(mesh):
        on_mesh = parallel(model, mesh, architecture.plan)
        with weft.comm_debug() as in_forward:
            loss = on_mesh(**batch).loss
        with weft.comm_debug() as in_backward:
            loss.backward()
        return [{kind: calls for kind, (calls, _) in c.by_collective().items()} for c in (in_forward, in_backward)]

    communicated = on_ranks(program)[0]
    if architecture.all_reduces is None:
        assert architecture.reason, communicated
        return architecture.reason
    assert communicated == [{"all_reduce": calls} for calls in architecture.all_reduces]
    return "{} + {} all-reduces".format(*architecture.all_reduces)


CHECKS = {
    "forward": _computes(forward),
    "gradients": _computes(gradients),
    "training": _computes(train),
    "generate": _generates,
    "communicates": _communicates,
}


def cell(name, check):
    """What the table says of an architecture. Raises if a check fails."""
    return CHECKS[check](ARCHITECTURES[name])


def _cell_or_reason(name, check):
    try:
        return cell(name, check)
    except Exception as error:  # the table names the reason
        return str(error).strip().splitlines()[0].replace("|", "/")


def _row(cells):
    return "| " + " | ".join(cells) + " |\n"


def table():
    rows = [_row(["model", *CHECKS]), _row(["---"] * (1 + len(CHECKS)))]
    return "".join(rows + [_row([name, *(_cell_or_reason(name, check) for check in CHECKS)]) for name in ARCHITECTURES])


def documented():
    """What the table in the document says: {model: {check: cell}}."""
    text = re.search(re.escape(BEGIN) + "(.*?)" + re.escape(END), DOCUMENT.read_text(), re.DOTALL).group(1)
    head, _, *rows = [[each.strip() for each in line.strip("|").split("|")] for line in text.splitlines()]
    return {row[0]: dict(zip(head[1:], row[1:])) for row in rows}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=pathlib.Path, help="the document whose table is replaced")
    path = parser.parse_args().write
    made = table()
    if path is None:
        print(made, end="")
        return
    text = path.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    path.write_text(text[:begin] + made + text[end:])


if __name__ == "__main__":
    main()
