import unittest

from tree import TreeTest


class CheckSizes(TreeTest):
    script = "check_sizes.py"

    def test_small_files_pass_without_a_word(self):
        self.write({"weft/core/mesh.h": "\n" * 150, "weft/core/mesh.cpp": "\n" * 400})
        self.assert_passes()
        self.assertNotIn("mesh", self.run_script().stdout)

    def test_a_large_header_is_noted_but_passes(self):
        self.write({"weft/core/mesh.h": "\n" * 151})
        self.assert_passes()
        self.assertIn("weft/core/mesh.h: 151 lines, 150 are recommended", self.run_script().stdout)

    def test_past_the_limit_fails(self):
        self.write({"tests/core/mesh_test.cpp": "\n" * 601})
        self.assert_fails_with("tests/core/mesh_test.cpp: 601 lines, the limit is 600")

    def test_a_folder_of_many_files_fails(self):
        self.write({f"python/weft/file_{i}.py": "" for i in range(46)})
        self.assert_fails_with("python/weft: 46 source files, the limit is 45. Divide the folder by concept")

    def test_a_folder_of_many_tests_passes(self):
        self.write({f"tests/python/test_{i}.py": "" for i in range(46)})
        self.assert_passes()


if __name__ == "__main__":
    unittest.main()
