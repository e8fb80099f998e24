"""zoo.py [--write docs/huggingface.md]: the tables of architectures and what works with each, on two ranks.

    python tests/huggingface/zoo.py --write docs/huggingface.md
"""

import argparse
import copy
import pathlib
import re

import more_architectures
import torch
import weft
from architectures import ARCHITECTURES
from on_ranks import batch_of, expect_equal, forward, generate, gradients, on_ranks, parallel, train
from through_commands import computes_exported, computes_strictly_exported

YES, NONE = "yes", "–"
ZOO, MORE = ("<!-- made by tests/huggingface/zoo.py{} -->\n".format(part) for part in ("", ": more"))
END = "<!-- end -->\n"
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


def _text(collectives):
    """Of a pass: 7, or 5, 4 reduce_scatter."""
    others = [f"{calls} {kind.replace('_', '-')}s" for kind, calls in collectives.items() if kind != "all_reduce"]
    return ", ".join([str(collectives["all_reduce"]), *others])


def _communicates(architecture):
    """How many all-reduces there are, and what there is more than a program by hand would communicate, with the reason."""
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
        assert communicated == list(architecture.collectives) and architecture.reason
        in_forward, in_backward = communicated
        return f"{_text(in_forward)} + {_text(in_backward)}: {architecture.reason}"
    assert communicated == [{"all_reduce": calls} for calls in architecture.all_reduces]
    return "{} + {}".format(*architecture.all_reduces)


CHECKS = {
    "forward": _computes(forward),
    "gradients": _computes(gradients),
    "training": _computes(train),
    "generate": _generates,
    "all-reduces": _communicates,
}
EXPORTS = {"plan, shard, run": computes_exported, "strict": computes_strictly_exported}


def cell(name, check):
    """What the table says of an architecture. Raises if a check fails."""
    return EXPORTS[check](name) if check in EXPORTS else CHECKS[check](ARCHITECTURES[name])


def _cell_or_reason(cell, *of):
    try:
        return cell(*of)
    except Exception as error:  # the table names the reason
        return str(error).strip().splitlines()[0].replace("|", "/")


def _row(cells):
    return "| " + " | ".join(cells) + " |\n"


def _table(names, checks, cell):
    rows = [_row(["model", *checks]), _row(["---"] * (1 + len(checks)))]
    return "".join(rows + [_row([name, *(_cell_or_reason(cell, name, check) for check in checks)]) for name in names])


def tables():
    """By the line that they follow in the document."""
    more = more_architectures
    return {
        ZOO: _table(ARCHITECTURES, [*CHECKS, *EXPORTS], cell),
        MORE: _table(more.MODELS, more.CHECKS, more.cell),
    }


def documented(begin=ZOO):
    """What a table in the document says: {model: {check: cell}}."""
    text = re.search(re.escape(begin) + "(.*?)" + re.escape(END), DOCUMENT.read_text(), re.DOTALL).group(1)
    head, _, *rows = [[each.strip() for each in line.strip("|").split("|")] for line in text.splitlines()]
    return {row[0]: dict(zip(head[1:], row[1:])) for row in rows}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=pathlib.Path, help="the document whose tables are replaced")
    path = parser.parse_args().write
    for begin, made in tables().items():
        if path is None:
            print(made)
            continue
        text = path.read_text()
        start = text.index(begin) + len(begin)
        path.write_text(text[:start] + made + text[text.index(END, start) :])


if __name__ == "__main__":
    main()
