import unittest

from tree import TreeTest

GOOD = {
    "CMakeLists.txt": """
# weft_layer(ghost) in a comment declares nothing
weft_layer(core)
weft_layer(comm DEPENDS core)
weft_layer(redistribute DEPENDS core ALSO execute:comm)
weft_layer(propagation
  DEPENDS core redistribute/plan)
""",
    "weft/weft.h": '#include "weft/redistribute/execute.h"\n',
    "weft/core/mesh.h": "#include <vector>\n",
    "weft/core/mesh.cpp": '#include "weft/core/mesh.h"\n',
    "weft/comm/group.h": '#include "weft/core/mesh.h"\n',
    "weft/redistribute/plan.h": '#include "weft/core/mesh.h"\n',
    "weft/redistribute/execute.h": '#include "weft/comm/group.h"\n#include "weft/redistribute/plan.h"\n',
    "weft/redistribute/execute.cpp": '#include "weft/redistribute/execute.h"\n',
    "weft/propagation/choose.cpp": '#include "weft/redistribute/plan.h"\n',
}


class CheckLayers(TreeTest):
    script = "check_layers.py"

    def setUp(self):
        super().setUp()
        self.write(GOOD)

    def test_declared_edges_pass(self):
        self.assert_passes()

    def test_an_undeclared_edge_fails_and_names_the_line(self):
        self.write({"weft/core/mesh.cpp": '#include "weft/core/mesh.h"\n\n#include "weft/comm/group.h"\n'})
        self.assert_fails_with("weft/core/mesh.cpp:3: may not include weft/comm/group.h: core declares no edges")

    def test_angle_brackets_hide_nothing(self):
        self.write({"weft/core/mesh.cpp": "#include <weft/comm/group.h>\n"})
        self.assert_fails_with("weft/core/mesh.cpp:1: may not include weft/comm/group.h")

    def test_edges_are_not_transitive(self):
        self.write({"weft/propagation/choose.cpp": '#include "weft/comm/group.h"\n'})
        self.assert_fails_with("propagation declares core, redistribute/plan")

    def test_an_also_edge_is_for_its_file_alone(self):
        self.write({"weft/redistribute/plan.cpp": '#include "weft/comm/group.h"\n'})
        self.assert_fails_with("weft/redistribute/plan.cpp:1: may not include weft/comm/group.h")

    def test_a_pure_file_may_not_include_the_impure_one_beside_it(self):
        self.write({"weft/redistribute/plan.cpp": '#include "weft/redistribute/execute.h"\n'})
        self.assert_fails_with("weft/redistribute/plan.cpp:1: may not include weft/redistribute/execute.h: only execute")

    def test_an_edge_to_one_file_does_not_open_its_layer(self):
        self.write({"weft/propagation/choose.cpp": '#include "weft/redistribute/execute.h"\n'})
        self.assert_fails_with("may not include weft/redistribute/execute.h")

    def test_a_folder_may_have_an_also_edge(self):
        cmake = GOOD["CMakeLists.txt"] + "weft_layer(graph DEPENDS core ALSO exec:comm)\n"
        self.write({"CMakeLists.txt": cmake, "weft/graph/exec/run.cpp": '#include "weft/comm/group.h"\n'})
        self.assert_passes()
        self.write({"weft/graph/ir/node.cpp": '#include "weft/comm/group.h"\n'})
        self.assert_fails_with("weft/graph/ir/node.cpp:1")

    def test_a_relative_include_fails(self):
        self.write({"weft/core/mesh.cpp": '#include "mesh.h"\n'})
        self.assert_fails_with('"mesh.h" must be written from the root')

    def test_a_missing_header_fails(self):
        self.write({"weft/core/mesh.cpp": '#include "weft/core/gone.h"\n'})
        self.assert_fails_with("weft/core/gone.h does not exist")

    def test_the_umbrella_header_is_not_for_layers(self):
        self.write({"weft/core/mesh.cpp": '#include "weft/weft.h"\n'})
        self.assert_fails_with("the umbrella header is for users")

    def test_an_undeclared_folder_fails(self):
        self.write({"weft/ghost/a.h": ""})
        self.assert_fails_with("weft/ghost: no weft_layer(ghost ...)")


if __name__ == "__main__":
    unittest.main()
