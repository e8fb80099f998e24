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

    def declare(self, *layers):
        self.write({"CMakeLists.txt": GOOD["CMakeLists.txt"] + "".join(f"weft_layer({layer})\n" for layer in layers)})

    def test_a_folder_in_a_layer_is_a_layer_of_its_own(self):
        self.declare("comm/world DEPENDS core comm", "tensor DEPENDS comm")
        self.write({"weft/comm/world/gloo.h": '#include "weft/comm/group.h"\n'})
        self.assert_passes()
        self.write({"weft/comm/group.cpp": '#include "weft/comm/world/gloo.h"\n'})
        self.assert_fails_with("weft/comm/group.cpp:1: may not include weft/comm/world/gloo.h: comm declares core")
        self.write({"weft/comm/group.cpp": "", "weft/tensor/tensor.h": '#include "weft/comm/world/gloo.h"\n'})
        self.assert_fails_with("weft/tensor/tensor.h:1: may not include weft/comm/world/gloo.h: tensor declares comm")

    def test_an_edge_to_a_layer_declared_later_fails(self):
        self.declare("tensor DEPENDS nn", "nn DEPENDS core")
        self.assert_fails_with("weft_layer(tensor): the layer nn is not declared before it")

    def test_a_second_exception_fails(self):
        self.declare("nn DEPENDS core ALSO cross:comm")
        self.assert_fails_with("2 exceptions by ALSO, at most 1: redistribute: execute:comm, nn: cross:comm")

    def test_passes_do_not_depend_on_tensors(self):
        self.declare("tensor/impl", "graph/ir", "graph/capture DEPENDS tensor/impl", "graph/replay DEPENDS tensor/impl")
        self.assert_passes()
        self.declare("tensor/impl", "graph/ir DEPENDS tensor/impl")
        self.assert_fails_with("weft_layer(graph/ir): may not depend on tensor/impl: passes work on programs")

    def test_a_relative_include_fails(self):
        self.write({"weft/core/mesh.cpp": '#include "mesh.h"\n'})
        self.assert_fails_with('"mesh.h" must be written from the root')

    def test_a_missing_header_fails(self):
        self.write({"weft/core/mesh.cpp": '#include "weft/core/gone.h"\n'})
        self.assert_fails_with("weft/core/gone.h does not exist")

    def test_the_umbrella_header_is_not_for_layers(self):
        self.write({"weft/core/mesh.cpp": '#include "weft/weft.h"\n'})
        self.assert_fails_with("the umbrella header is for users")

    def test_folders_of_python_do_not_import_each_other(self):
        package = {
            "python/weft/__init__.py": "from weft._plans.plan import Plan",
            "python/weft/_world.py": "from weft import _C",
            "python/weft/_modules/forward.py": "from weft import _C, _world",
            "python/weft/_plans/plan.py": "from weft._modules.forward import run\ndef late():\n    import weft._late",
            "python/weft/_late.py": "import weft._plans.plan",
        }
        self.write(package)
        self.assert_passes()
        self.write({"python/weft/_modules/more.py": "from weft._plans import plan"})
        self.assert_fails_with(
            "a cycle of imports: _plans imports _modules (python/weft/_plans/plan.py:1), "
            "_modules imports _plans (python/weft/_modules/more.py:1)"
        )
        self.write({"python/weft/_modules/more.py": "", "python/weft/_world.py": "import weft._late"})
        self.assert_fails_with("_late imports _plans (python/weft/_late.py:1)")

    def test_an_undeclared_folder_fails(self):
        self.write({"weft/ghost/a.h": ""})
        self.assert_fails_with("weft/ghost: no weft_layer(ghost ...)")


if __name__ == "__main__":
    unittest.main()
