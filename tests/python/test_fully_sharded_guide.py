"""The programs of docs/fully_sharded.md print what it says."""

import re
from pathlib import Path

import weft

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "fully_sharded.md"


def test_the_programs_print_what_they_say():
    program = "\n".join(re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL))
    expected = re.findall(r"^print\(.*?\) +# (.*)$", program, re.MULTILINE)
    assert len(expected) == 5

    def rank_program(rank):
        printed = []
        exec(program, {"print": lambda value: printed.append(str(value)), "__name__": "guide"})
        return printed

    assert weft.run_on_ranks(2, rank_program) == [expected, expected]
