"""The process that runs programs: reads lines "[seed, kind, whether to shrink]" and answers each by a line of JSON."""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import torch
from differential.compare import check
from differential.kinds import generate
from differential.shrink import shrink


def run(seed, kind, with_shrinking):
    program = generate(seed, kind)
    verdict = check(program)
    answer = {
        "seed": seed, "kind": program.kind, "steps": verdict.steps, "refused": verdict.refused, "failure": verdict.failure,
    }  # fmt: skip
    if verdict.failure:
        if with_shrinking:
            program = shrink(program, verdict.kind())
            answer["failure"] = check(program).failure or verdict.failure
        answer["program"] = program.text()
    return answer


def main():
    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")  # programs may print
    os.dup2(2, 1)
    for line in sys.stdin:
        answers.write(json.dumps(run(*json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
