import unittest

from tree import TreeTest

RUN = "".join(f"  total += weigh({name}, {name}_sizes[0]); // {name}\n" for name in "abcdef")
PYTHON_RUN = "".join(f"    total += weigh({name})\n" for name in "abcdef")
PARAMETERS = "".join(f"    const at::Tensor& {name},\n" for name in "abcdefgh")


class CheckTwins(TreeTest):
    script = "check_twins.py"

    def test_a_run_of_six_lines_in_two_files_fails_with_both_places(self):
        self.write({"weft/core/a.cpp": f"int a() {{\n{RUN}}}\n", "tools/b.cpp": f"\n\nint b() {{\n{RUN}}}\n"})
        self.assert_fails_with("weft/core/a.cpp:2-7 and tools/b.cpp:4-9: 6 lines or more stand in both places")

    def test_comments_spaces_and_blank_lines_make_no_difference(self):
        other = RUN.replace("// ", "// the ").replace("  total", "\n\ttotal")
        self.write({"weft/core/a.cpp": RUN, "weft/core/b.cpp": other})
        self.assert_fails_with("weft/core/a.cpp:1-6 and weft/core/b.cpp:2-12")

    def test_a_file_may_not_repeat_itself(self):
        self.write({"python/weft/a.py": f"def f():\n{PYTHON_RUN}\ndef g():\n{PYTHON_RUN}"})
        self.assert_fails_with("python/weft/a.py:2-7 and python/weft/a.py:10-15")

    def test_a_longer_run_is_one_complaint(self):
        self.write({"weft/core/a.cpp": RUN + "  done();\n", "weft/core/b.cpp": RUN + "  done();\n"})
        self.assertEqual(self.run_script().stdout.count("stand in both places"), 1)
        self.assert_fails_with("weft/core/a.cpp:1-7 and weft/core/b.cpp:1-7")

    def test_five_lines_parameters_includes_and_docstrings_pass(self):
        five = "".join(RUN.splitlines(keepends=True)[:5])
        includes = "".join(f'#include "weft/core/{name}.h"\n' for name in "abcdefgh")
        text = f"{includes}int f(\n{PARAMETERS}    int last);\n{five}"
        docstring = '"""' + PYTHON_RUN + '"""\n'
        self.write({"weft/core/a.cpp": text, "weft/core/b.cpp": text, "python/a.py": docstring, "python/b.py": docstring})
        self.assert_passes()

    def test_a_line_that_repeats_itself_is_no_twin_of_its_neighbour(self):
        self.write({"weft/core/a.cpp": "  total += one();\n" * 11})
        self.assert_passes()


if __name__ == "__main__":
    unittest.main()
