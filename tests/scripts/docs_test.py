"""Documents name files that exist. docs/design.md has a row for every layer, and functions and types that exist in its walks."""

import re
import sys
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from check_layers import declared_layers

DESIGN = (ROOT / "docs" / "design.md").read_text()
WALKS = DESIGN[DESIGN.index("\n## Walks") :].split("\n## ")[1]
PATH = r"(?:bench|cmake|docs|examples|python|scripts|tests|tools|weft)/[\w./]*\w"


def sources(path):
    """The text of a file, of its header or source of the same stem, and of all files in a folder."""
    path = ROOT / path
    files = path.rglob("*") if path.is_dir() else path.parent.glob(f"{path.stem}.*")
    return "\n".join(file.read_text() for file in sorted(files) if file.suffix in (".h", ".cpp", ".py"))


def functions_in(text):
    """The names of the functions that a text declares or calls."""
    return set(re.findall(r"\b(\w+)\(", text))


def base_name(function):
    return function.split("::")[-1]


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.everything = sources("weft") + sources("tools")

    def test_every_layer_has_a_row_and_every_row_a_layer(self):
        rows = re.findall(r"^\| `weft/([\w/]+)` \|", DESIGN, re.MULTILINE)
        self.assertEqual(sorted(rows), sorted(declared_layers((ROOT / "CMakeLists.txt").read_text())))

    def test_documents_name_files_that_exist(self):
        for document in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]:
            text = document.read_text()
            linked = [document.parent / path for path in re.findall(r"\]\(([\w./-]+)\)", text)]
            named = [ROOT / path for path in re.findall(rf"`({PATH})/?`", text)]
            self.assertEqual([path for path in linked + named if not path.exists()], [], document)

    def test_the_walks_name_functions_that_exist(self):
        functions = re.findall(r"`((?:\w+::)?\w+)\(\)`", WALKS)
        self.assertGreater(len(functions), 50)
        known = functions_in(self.everything)
        self.assertEqual([name for name in functions if base_name(name) not in known], [])

    def test_a_function_is_in_the_file_that_is_named_behind_it(self):
        pairs = re.findall(rf"`((?:\w+::)?\w+)\(\)`\s+\(`({PATH})`", WALKS)
        self.assertGreater(len(pairs), 30)
        self.assertEqual([(name, path) for name, path in pairs if base_name(name) not in functions_in(sources(path))], [])

    def test_the_walks_name_types_that_exist(self):
        known = set(re.findall(r"\b(?:class|struct) (\w+)", self.everything))
        types = {name.split("::")[0] for name in re.findall(r"`([A-Z]\w+[a-z]\w+)(?:`|::)", WALKS)}
        self.assertEqual(types - known, set())


if __name__ == "__main__":
    unittest.main()
