import unittest

from tree import TreeTest

DESIGN = """# Design
| `weft/core` | values | ATen |
| `_torch` | parts of torch |

## Walks
`plan()` (`weft/core/plan.cpp`) makes a `StepList` by `choose()`.

## Libraries
`gone()` is no walk.
"""
GOOD = {
    "CMakeLists.txt": "weft_layer(core)\n",
    "README.md": "[design](docs/design.md), `weft/core/plan.h`, `weft/core`",
    "CONTRIBUTING.md": "`weft/core/plan.h`, `plan.cpp`: add to `choose_all`, or call `make_plan(name)`.",
    "docs/design.md": DESIGN,
    "python/weft/__init__.py": "",
    "python/weft/_torch/seed.py": "",
    "weft/core/plan.h": "struct StepList {};\nStepList plan();\n",
    "weft/core/plan.cpp": "StepList plan() { return choose(choose_all, make_plan()); }\n",
    "tools/main.cpp": "",
}


class CheckDocs(TreeTest):
    script = "check_docs.py"

    def setUp(self):
        super().setUp()
        self.write(GOOD)

    def change(self, path, old, new):
        self.write({path: GOOD[path].replace(old, new)})

    def test_documents_that_name_what_exists_pass(self):
        self.assert_passes()

    def test_a_layer_or_folder_without_a_row_and_a_row_without_one_fail(self):
        self.write({"CMakeLists.txt": "weft_layer(core)\nweft_layer(comm)\n", "python/weft/_trace/compile.py": ""})
        self.assert_fails_with("has no row for the layer comm", "has no row for the folder of python/weft _trace")
        self.write({"docs/design.md": DESIGN.replace("weft/core` |", "weft/rules` |")})
        self.assert_fails_with("has a row for rules, which is no layer", "has no row for the layer core")

    def test_a_file_that_does_not_exist_fails(self):
        self.change("README.md", "docs/design.md", "docs/gone.md")
        self.assert_fails_with("README.md: docs/gone.md does not exist")
        self.change("README.md", "plan.h", "gone.h")
        self.assert_fails_with("README.md: weft/core/gone.h does not exist")

    def test_functions_and_types_of_the_walks_exist(self):
        self.change("docs/design.md", "choose()", "chosen()")
        self.assert_fails_with("there is no function chosen()")
        self.change("docs/design.md", "StepList", "StepChain")
        self.assert_fails_with("there is no type StepChain")

    def test_a_function_is_in_the_file_that_is_named_behind_it(self):
        self.write({"weft/core/other.cpp": ""})
        self.change("docs/design.md", "weft/core/plan.cpp", "weft/core/other.cpp")
        self.assert_fails_with("plan() is not in weft/core/other.cpp")

    def test_files_and_functions_of_how_tos_exist(self):
        self.change("CONTRIBUTING.md", "`plan.cpp`", "`gone.cpp`")
        self.assert_fails_with("CONTRIBUTING.md: there is no file gone.cpp")
        self.change("CONTRIBUTING.md", "choose_all", "choose_none")
        self.assert_fails_with("CONTRIBUTING.md: there is no function choose_none")
        self.change("CONTRIBUTING.md", "make_plan(name)", "take_plan(name)")
        self.assert_fails_with("CONTRIBUTING.md: there is no function take_plan")


if __name__ == "__main__":
    unittest.main()
