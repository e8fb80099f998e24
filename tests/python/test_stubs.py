"""The stubs name what the module has."""

import ast
from pathlib import Path

import weft
from weft import _C


def members_of(body):
    """Names and, of classes, their members."""
    result = {}
    for node in body:
        if isinstance(node, ast.ClassDef):
            result[node.name] = members_of(node.body)
        elif isinstance(node, ast.FunctionDef):
            result[node.name] = {}
        elif isinstance(node, ast.AnnAssign):
            result[node.target.id] = {}
    return result


def is_public(name):
    return not name.startswith("_") or name in ("__version__", "__getitem__", "__enter__", "__exit__", "_flatten")


def check_same(module, stub, where):
    missing = [name for name in stub if is_public(name) and not hasattr(module, name)]
    # What is inherited is stated by the base.
    present = vars(module) if isinstance(module, type) else dir(module)
    unnamed = [name for name in present if is_public(name) and name not in stub]
    assert (missing, unnamed) == ([], []), where
    for name, members in stub.items():
        if members and is_public(name):
            check_same(getattr(module, name), members, f"{where}.{name}")


def test_the_stubs_and_the_module_have_the_same_names():
    stub = members_of(ast.parse((Path(weft.__file__).parent / "_C.pyi").read_text()).body)
    check_same(_C, stub, "_C")


def test_everything_public_has_a_docstring():
    undocumented = [name for name in weft.__all__ if not getattr(weft, name).__doc__]
    assert undocumented == []
    assert all(hasattr(weft, name) for name in weft.__all__) and weft.__version__ == _C.__version__


def test_the_package_says_that_it_is_typed():
    assert (Path(weft.__file__).parent / "py.typed").exists()
