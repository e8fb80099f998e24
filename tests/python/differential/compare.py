"""Judges a program: compares what ranks did with what one device did."""

import dataclasses

import torch
from differential import accepted
from differential.runner import last_write_to_view, run_distributed, run_plain, run_plain_saving_copies

# By the coarsest dtype that a program mentions or makes.
TOLERANCES = {"bfloat16": 6e-2, "float32": 1e-4, "float()": 1e-4}
MAX_REFUSALS = 6  # steps of one program that are left out because Weft refuses them


@dataclasses.dataclass
class Verdict:
    failure: str = ""  # empty where all agrees; the first line says what kind of failure
    refused: list = dataclasses.field(default_factory=list)  # kinds of accepted errors
    steps: int = 0

    def kind(self):
        return self.failure.split("\n")[0]


def tolerance_of(program, plain):
    text = f"{program.text()} {plain.made}"
    return next((tolerance for dtype, tolerance in TOLERANCES.items() if dtype in text), 1e-9)


def same_value(actual, expected, tolerance):
    if isinstance(expected, float):
        actual, expected = torch.tensor(actual), torch.tensor(expected)
    if not isinstance(expected, torch.Tensor):
        return actual == expected
    return torch.allclose(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)


def difference(program, plain, rank, rank_number):
    """The first thing that a rank found other than one device did, as "kind\\ndetails"; empty where there is none."""
    tolerance = tolerance_of(program, plain)
    for number, (found, wanted) in enumerate(zip(rank.made, plain.made)):
        if found != wanted:
            return f"metadata differs\nrank {rank_number}, {program.steps[number]!r}: {found}, plain {wanted}"
    for (number, value, about), (_, expected, wanted) in zip(rank.reads, plain.reads):
        where = f"rank {rank_number}, {program.steps[number]!r}"
        if about != wanted:
            return f"metadata differs\n{where}: {about}, plain {wanted}"
        if not same_value(value, expected, tolerance):
            return f"value differs\n{where}:\n{value}\nplain:\n{expected}"
    return ""


def unequal_replicas(program, ranks):
    """Replicas must be the same bit by bit, or ranks would decide differently."""
    for number, rank in enumerate(ranks[1:], 1):
        for (step, value, _), (_, first, _) in zip(rank.reads, ranks[0].reads):
            same = torch.equal(value.nan_to_num(), first.nan_to_num()) if isinstance(value, torch.Tensor) else value == first
            if not same and value == value:
                return f"replicas differ\nranks 0 and {number}, {program.steps[step]!r}:\n{first}\n{value}"
    return ""


def judge(program, plain, ranks):
    """(failure, position of a step that is to be left out or None, kind of its error) for what ranks did."""
    stops = {(rank.stopped_at(), accepted.kind_of(rank.text)) for rank in ranks}
    if len(stops) > 1:
        what = "ranks raise different errors" if len({stop for stop, _ in stops}) == 1 else "ranks differ"
        said = "\n".join(f"rank {n}: step {r.stopped_at()}: {r.text.splitlines()[:3]}" for n, r in enumerate(ranks))
        return f"{what}\n{said}", None, ""
    stop, kind = stops.pop()
    for number, rank in enumerate(ranks):
        if failure := difference(program, plain, rank, number):
            return failure, None, ""
    if failure := unequal_replicas(program, ranks):
        return failure, None, ""
    if stop is not None and accepted.is_lost(ranks[0].text):
        return f"internal: {kind}\n{program.steps[stop]!r}: {ranks[0].text}", None, ""
    if stop == plain.stopped_at():
        return "", None, ""
    if stop is None or (plain.error and plain.stopped_at() < stop):
        if accepted.is_about_saved_values(plain.text):
            failure, refused, kind = judge(program, run_plain_saving_copies(program), ranks)
            return failure, refused, kind or "plain alone raises: " + accepted.kind_of(plain.text)[:90]
        if accepted.is_about_shared_memory(plain.text):
            return "", None, "plain alone raises: " + accepted.kind_of(plain.text)[:90]
        return f"does not raise\n{program.steps[plain.stopped_at()]!r}: plain {plain.text}", None, ""
    if accepted.is_accepted(ranks[0].text):
        return "", stop, kind
    if accepted.is_about_copied_view(ranks[0].text):
        write = last_write_to_view(program, stop)
        if write is not None:
            return "", write, kind
    return f"raises: {kind}\n{program.steps[stop]!r}: {ranks[0].text}", None, ""


def check(program):
    """A Verdict. Steps that Weft refuses by an accepted error are left out on both sides, and the rest runs again."""
    verdict = Verdict()
    for _ in range(MAX_REFUSALS):
        verdict.steps = len(program.steps)
        try:
            all_ranks = run_distributed(program)
        except Exception as error:
            verdict.failure = f"ranks lost each other\n{type(error).__name__}: {error}"
            return verdict
        for each, ranks in zip((program, program.beside), all_ranks):
            verdict.failure, refused, kind = judge(each, run_plain(each), ranks)
            if verdict.failure or refused is not None:
                break
        verdict.refused += [kind] if kind else []
        if verdict.failure or refused is None:
            return verdict
        if each is program:
            program = program.without({refused})
        else:
            program = dataclasses.replace(program, beside=each.without({refused}))
    return verdict
