"""The example of docs/python.md prints what it says."""

import re
from pathlib import Path

import weft

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "python.md"


def test_the_first_example_prints_what_it_says():
    program = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL).group(1)
    expected = re.findall(r"^print\(.*?\) +# (.*)$", program, re.MULTILINE)
    assert len(expected) == 2

    def rank_program(rank):
        printed = []
        exec(program, {"print": lambda value: printed.append(str(value))})
        return printed

    assert weft.run_on_ranks(2, rank_program) == [expected, expected]


def test_every_public_name_is_in_the_document():
    text = DOCUMENT.read_text()
    helpers = {"Placement", "Explanation", "random_state", "set_random_state"}
    assert [name for name in weft.__all__ if name not in helpers and not re.search(rf"\b{name}\b", text)] == []
