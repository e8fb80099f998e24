"""Models of transformers, unchanged, with random weights: two ranks compute what one device computes, and the table of
docs/huggingface.md says so."""

import pytest
import zoo
from architectures import ARCHITECTURES

DOCUMENTED = zoo.documented()


@pytest.mark.parametrize("check", zoo.CHECKS)
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_does_what_the_document_says(name, check):
    assert zoo.cell(name, check) == DOCUMENTED[name][check]


def test_the_document_has_every_architecture():
    assert list(DOCUMENTED) == list(ARCHITECTURES)
