import unittest

from tree import TreeTest

GOOD = {
    "README.md": "Shards of the `whole` tensor.\n\n```cpp\nauto whole = cut(pieces);\n```\nThe ranks take part and the ranks share memory.\n",
    "tools/run.cpp": (
        "// Gathers the shards of all ranks: rule.whole, unsharded={a}, cut(x).\n"
        'const char* help = "a part of the help, shared by its parts and others";\n'
        'auto shortcut = part_of("whole", "cut"); // as `whole` says\n'
        'const char* url = "http://pieces";\n'
    ),
    "python/weft/a.py": '"""Shards."""\nfull = "whole"  # the global tensor\nraise ValueError(f"one rank is needed for {full}")\n',
    "tests/python/test_a.py": 'def test_a_whole_tensor():\n    assert text() == "left whole: it cannot be divided"\n',
    "docs/rules.md": "generated: whole\n",
    "fuzz/corpus/read/a": "whole\n",
    "cmake/a.cmake": 'set(whole "whole") # of the tree\n',
}


class CheckWords(TreeTest):
    script = "check_words.py"

    def setUp(self):
        super().setUp()
        self.write(GOOD)

    def test_code_and_ordinary_english_pass(self):
        self.assert_passes()

    def assert_avoids(self, name, text, *complaints):
        self.write({name: text})
        self.assert_fails_with(*complaints)

    def test_a_comment_fails_with_its_line_and_what_to_say(self):
        text = "int x;\n\nint y; // the pieces of everybody\n"
        line = "tools/a.cpp:3: "
        self.assert_avoids("tools/a.cpp", text, line + '"pieces": say chunk', line + '"everybody": say rank, member or caller')

    def test_a_message_fails(self):
        self.assert_avoids("tools/a.cpp", 'fail("the tensor is cut twice");\n', 'tools/a.cpp:1: "cut": say shard')
        self.assert_avoids("python/weft/b.py", "raise ValueError(f'{x} lies on no mesh')\n", 'python/weft/b.py:1: "lies": say')

    def test_a_raw_string_fails_at_its_line(self):
        self.assert_avoids("tools/a.cpp", 'help = R"(one\nwhich brings two\n)";\n', 'tools/a.cpp:2: "brings"')

    def test_a_docstring_fails_also_of_a_test(self):
        self.assert_avoids("tests/python/test_b.py", 'def f():\n    """One line.\n\n    Whole.\n    """\n', 'test_b.py:4: "Whole"')

    def test_markdown_fails_outside_of_code_blocks(self):
        text = "```\nwhole\n```\n\nIt is reckoned.\n"
        self.assert_avoids("docs/a.md", text, 'docs/a.md:5: "reckoned": say compute')

    def test_scripts_and_makefiles_fail(self):
        self.assert_avoids("Makefile", 'help:\n\t@echo "runs this beside that one"\n', 'Makefile:2: "beside": say overlap')
        self.assert_avoids("cmake/b.cmake", "# an addend\n", 'cmake/b.cmake:1: "addend": say term')

    def test_an_identifier_fails_outside_of_tests(self):
        self.assert_avoids("tools/a.cpp", "int x;\nint first_piece = 1;\n", 'tools/a.cpp:2: "first_piece": say chunk')
        self.assert_avoids("tools/a.h", "struct WholeBlock;\n", 'tools/a.h:1: "WholeBlock": say global')
        self.assert_avoids("python/weft/b.py", "x = [\n    addends]\n", 'python/weft/b.py:2: "addends": say term')

    def test_parts_of_ranks_fail(self):
        for text in ("a rank's part", "every member's own share", "it sends its part.", "the parts of all ranks"):
            self.assert_avoids("docs/a.md", text + "\n", "docs/a.md:1: ", "shard")


if __name__ == "__main__":
    unittest.main()
