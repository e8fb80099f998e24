import unittest

from tree import TreeTest

GOOD = {
    "weft/core/mesh.h": "namespace weft {\nclass Mesh;\nclass Mesh {\n struct Entry {};\n};\n}\n",
    "weft/core/layout.h": "namespace weft {\nclass Mesh;\nclass Layout final : public Base<Mesh> {\n enum class Entry { A };\n};\n}\n",
    "weft/core/a.cpp": 'namespace weft {\nnamespace {\nstruct Local {};\nusing Json = json::type;\n} // namespace\n}\nconst char* k = "struct Mesh {";\n',
    "weft/core/b.cpp": "namespace weft {\nnamespace {\nusing Json = json::type;\n// struct Local {\n}\nvoid f() {\n struct Local {};\n using Mesh = int;\n}\n}\n",
    "weft/graph/c.cpp": "namespace weft {\nnamespace {\nstruct Local {};\n}\n}\n",
    "weft/graph/d.h": "namespace weft::graph {\nstruct Mesh {};\ntemplate <>\nstruct Hash<Mesh> {};\n}\n",
    "weft/graph/e.h": "namespace weft::graph {\ntemplate <>\nstruct Hash<Layout> {};\n}\n",
}


class CheckTypes(TreeTest):
    script = "check_types.py"

    def setUp(self):
        super().setUp()
        self.write(GOOD)

    def test_names_in_other_namespaces_classes_functions_and_layers_pass(self):
        self.assert_passes()

    def test_a_type_of_two_headers_fails(self):
        self.write({"weft/graph/f.h": "namespace weft::graph {\nclass Call {\n};\n}", "weft/graph/g.h": "namespace weft {\nnamespace graph {\nstruct Call {\n};\n}\n}"})
        self.assert_fails_with("weft/graph/g.h:3: weft::graph::Call is also defined in weft/graph/f.h:2")

    def test_a_type_of_two_layers_in_one_namespace_fails(self):
        self.write({"weft/graph/f.h": "namespace weft {\nenum class Layout { A };\n}"})
        self.assert_fails_with("weft/graph/f.h:2: weft::Layout is also defined in weft/core/layout.h:3")

    def test_anonymous_types_of_one_layer_fail(self):
        self.write({"weft/core/z.cpp": "namespace weft {\nnamespace {\nenum Local : int { A };\n}\n}"})
        self.assert_fails_with("weft/core/z.cpp:3: weft::Local is also defined in weft/core/a.cpp:3")

    def test_an_anonymous_type_that_hides_one_of_its_layer_fails(self):
        self.write({"weft/core/z.cpp": "namespace weft {\nnamespace {\nclass Mesh {};\n}\n}"})
        self.assert_fails_with("weft/core/z.cpp:3: weft::Mesh is also defined in weft/core/mesh.h:3")

    def test_an_alias_of_another_type_fails(self):
        self.write({"weft/core/z.cpp": "namespace weft {\nnamespace {\nusing Json = other::type;\n}\n}"})
        self.assert_fails_with("weft/core/z.cpp:3: weft::Json is also defined in weft/core/a.cpp:4")


if __name__ == "__main__":
    unittest.main()
