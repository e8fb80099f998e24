import unittest

from tree import TreeTest

GOOD = {
    "weft/core/mesh.h": "",
    "weft/core/mesh.cpp": "",
    "weft/core/hash.h": "",
    "weft/graph/ir/node.cpp": "",
    "weft/comm/world/gloo_absent.cpp": "",
    "tests/core/mesh_test.cpp": "",
    "tests/core/hash_test.cpp": "",
    "tests/graph/ir/node_test.cpp": "",
    "tests/integration/training_test.cpp": "",
    "tests/support/main.cpp": "",
}


class CheckMirror(TreeTest):
    script = "check_mirror.py"

    def setUp(self):
        super().setUp()
        self.write(GOOD)

    def test_a_mirrored_tree_passes(self):
        self.assert_passes()

    def test_a_source_without_a_test_fails(self):
        self.write({"weft/core/placement.cpp": ""})
        self.assert_fails_with("weft/core/placement.cpp: has no test, expected tests/core/placement_test.cpp")

    def test_a_nested_source_without_a_test_fails(self):
        self.write({"weft/graph/passes/fold.cpp": ""})
        self.assert_fails_with("expected tests/graph/passes/fold_test.cpp")

    def test_a_test_without_a_source_fails(self):
        self.write({"tests/core/gone_test.cpp": ""})
        self.assert_fails_with("tests/core/gone_test.cpp: tests nothing, expected weft/core/gone.cpp or weft/core/gone.h")

    def test_only_backend_stubs_of_comm_are_excused(self):
        self.write({"weft/core/mesh_absent.cpp": ""})
        self.assert_fails_with("weft/core/mesh_absent.cpp: has no test")


if __name__ == "__main__":
    unittest.main()
