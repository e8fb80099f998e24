#include "weft/graph/pt2/find_operator.h"

#include "tests/support/error_text.h"
#include "tests/support/pt2_file.h"
#include "weft/graph/pt2/read_pt2.h"

namespace weft::graph {

namespace find_operator_test {
using testing::error_text;
using testing::expect_contains;
using testing::linear_pt2;
using testing::named_argument;
using testing::tensor_argument;

TEST(FindOperator, AllThatAreNotRegisteredAreNamedAtOnceWithWhatToDo) {
  auto file = linear_pt2();
  file.node(0)["target"] = "torch.ops.mylib.one.default";
  file.node(1)["target"] = "torch.ops.mylib.two.Tensor";
  file.add_node("torch.ops.mylib.one.default", nlohmann::json::array(), "again");
  const auto error = error_text<c10::Error>([&] { read_pt2_bytes(file.bytes(), "m.pt2"); });
  expect_contains(
      error,
      "[read_pt2] m.pt2: models/model.json: graph_module.graph.nodes[0].target: registered operators are required, but "
      "these are not: torch.ops.mylib.one.default, torch.ops.mylib.two.Tensor. A file has no code of operators. Load "
      "the "
      "library that defines them before the program is read (--library).");
  expect_contains(error, "before the program is saved, replace them by run_decompositions()");
}

TEST(FindOperator, OneThatTransformersDefinesInPythonIsTorchsOwn) {
  auto file = linear_pt2();
  file.add_node(
      "torch.ops.transformers.grouped_mm_fallback.default",
      {named_argument("input", tensor_argument("relu")), named_argument("weight", tensor_argument("relu")),
       named_argument("offs", tensor_argument("linear"))},
      "grouped");
  const auto program = read_pt2_bytes(file.bytes());
  const auto* grouped = program.graph->first()->next()->next();
  EXPECT_EQ(target_name(*grouped), "aten::_grouped_mm");
  ASSERT_EQ(grouped->operand_count(), 3U);
  EXPECT_EQ(grouped->operand(1)->name(), "relu");
  EXPECT_EQ(grouped->operand(2)->name(), "linear");
}

} // namespace find_operator_test

} // namespace weft::graph
