#include "weft/graph/pt2/read_graph.h"

#include "tests/support/error_text.h"
#include "tests/support/pt2_file.h"
#include "weft/graph/pt2/read_pt2.h"

namespace weft::graph {

namespace read_graph_test {
using nlohmann::json;
using testing::error_text;
using testing::expect_contains;
using testing::linear_pt2;
using testing::named_argument;
using testing::Pt2File;
using testing::tensor_argument;
using testing::tensor_meta;

std::string error_of(const Pt2File& file) {
  return error_text<c10::Error>([&] { read_pt2_bytes(file.bytes(), "m.pt2"); });
}

json number(const char* name) {
  return {{"as_sym_int", {{"as_name", name}}}};
}

TEST(ReadGraph, NodesHaveTheirOperatorTypeAndOrigin) {
  const auto program = read_pt2_bytes(linear_pt2().bytes());
  const auto* linear = program.graph->first();
  EXPECT_EQ(target_name(*linear), "aten::linear");
  EXPECT_EQ(linear->operand(0)->name(), "x");
  EXPECT_EQ(linear->output()->tensor().sizes, (Sizes{Size::symbol("s77"), 3}));
  EXPECT_EQ(linear->origin.module, "wq");
  EXPECT_EQ(linear->origin.module_type, "torch.nn.modules.linear.Linear");
  EXPECT_EQ(linear->origin.metadata.pairs()[0].first, "nn_module_stack");
  EXPECT_EQ(target_name(*linear->next()), "aten::relu");
  EXPECT_TRUE(linear->next()->next()->is_return());
}

TEST(ReadGraph, OperatorsOfSeveralResultsNameThemOneByOne) {
  auto file = linear_pt2();
  file.add_node(
      "torch.ops.aten.topk.default",
      {named_argument("self", tensor_argument("relu")), named_argument("k", {{"as_int", 3}})}, "values");
  file.node(2)["outputs"] = {tensor_argument("values"), {{"as_none", true}}};
  file.add_node(
      "torch.ops.aten.unbind.int",
      {named_argument("self", tensor_argument("relu")), named_argument("dim", {{"as_int", 1}})}, "one");
  file.graph()["tensor_values"]["two"] = tensor_meta({4}, {1});
  file.node(3)["outputs"] = {{{"as_tensors", {{{"name", "one"}}, {{"name", "two"}}}}}};
  const auto program = read_pt2_bytes(file.bytes());
  const auto* topk = program.graph->first()->next()->next();
  EXPECT_EQ(topk->output(0)->name(), "values");
  EXPECT_EQ(topk->output(1), nullptr);
  EXPECT_EQ(topk->output_lists(), (std::vector<int64_t>{Node::kSingle, Node::kSingle}));
  EXPECT_EQ(topk->next()->outputs().size(), 2u);
  EXPECT_EQ(topk->next()->output_lists(), std::vector<int64_t>{2});
}

TEST(ReadGraph, FunctionsOfNumbersTakeNumbers) {
  auto file = linear_pt2();
  const auto add = [&](const json& node) { file.graph()["nodes"].push_back(node); };
  const auto symbol = [](const char* text) -> json { return {{"as_expr", {{"expr_str", text}}}}; };
  add(
      {{"target", "torch.ops.aten.sym_size.int"},
       {"inputs", {named_argument("self", tensor_argument("x")), named_argument("dim", {{"as_int", 0}})}},
       {"outputs", {number("batch")}}});
  add(
      {{"target", "_operator.mul"},
       {"inputs", {named_argument("a", number("batch")), named_argument("b", {{"as_int", 2}})}},
       {"outputs", {number("twice")}}});
  file.graph()["sym_int_values"] = {{"batch", symbol("s77")}, {"twice", symbol("2*s77")}};
  const auto program = read_pt2_bytes(file.bytes());
  const auto* twice = program.graph->return_node()->previous();
  EXPECT_EQ(target_name(*twice), "_operator.mul");
  EXPECT_EQ(std::get<NumberType>(twice->output()->type).expression, "2*s77");
  EXPECT_EQ(twice->arguments()[1].constant().toInt(), 2);

  file.node(3)["target"] = "math.hypot";
  expect_contains(error_of(file), "graph_module.graph.nodes[3].target: the function math.hypot is not supported");
  file.node(3)["target"] = "_operator.neg";
  expect_contains(error_of(file), "nodes[3].inputs: _operator.neg takes 1 numbers, but got 2");
  file.node(3)["target"] = "_operator.mul";
  file.node(3)["inputs"][0] = named_argument("a", tensor_argument("x"));
  expect_contains(error_of(file), "nodes[3].inputs: _operator.mul takes numbers, but got the tensor x");
}

TEST(ReadGraph, RegionsWithoutGradientsAreInlinedIntoTheGraph) {
  auto file = linear_pt2();
  file.add_node("torch.ops.higher_order.wrap_with_set_grad_enabled", json::array(), "after");
  // The region has its own names.
  Pt2File region = linear_pt2();
  region.node(1)["inputs"][0] = named_argument("self", tensor_argument("x"));
  region.graph()["nodes"].erase(0);
  region.graph()["inputs"] = {tensor_argument("x")};
  file.node(2)["inputs"] = {
      named_argument("", {{"as_bool", false}}),
      named_argument("", {{"as_graph", {{"name", "submod"}, {"graph", region.graph()}}}}),
      named_argument("", tensor_argument("relu"))};
  file.graph()["outputs"] = {tensor_argument("after")};
  const auto program = read_pt2_bytes(file.bytes());
  const auto* inner = program.graph->return_node()->operand(0)->producer();
  EXPECT_EQ(target_name(*inner), "aten::relu");
  EXPECT_EQ(inner->operand(0)->name(), "relu");
  EXPECT_EQ(inner->output()->name(), "relu_1");

  file.node(2)["inputs"].erase(2);
  expect_contains(error_of(file), "as many inputs as the region is called with are required, 0, but got 1");
  file.node(2)["target"] = "torch.ops.higher_order.cond";
  expect_contains(error_of(file), "nodes[2].target: the higher-order operator higher_order.cond is not supported");
}

TEST(ReadGraph, GraphsThatDoNotHoldAreNamedByTheirPlace) {
  auto file = linear_pt2();
  file.node(1)["target"] = "torch.ops.mylib.myop.default";
  expect_contains(
      error_of(file),
      "[read_pt2] m.pt2: models/model.json: graph_module.graph.nodes[1].target: registered operators are required, but "
      "these are not: torch.ops.mylib.myop.default. ");
  file.node(1)["target"] = "torch.ops.aten";
  expect_contains(error_of(file), "torch.ops.<library>.<operator>.<overload> is required, but got \"torch.ops.aten\"");

  file = linear_pt2();
  std::swap(file.node(0), file.node(1));
  expect_contains(
      error_of(file), "nodes[0].inputs[0].arg.as_tensor.name: the name \"linear\" is used, but not defined");
  file = linear_pt2();
  file.node(1)["outputs"] = {tensor_argument("linear")};
  expect_contains(error_of(file), "nodes[1].outputs[0].as_tensor.name: the name \"linear\" is defined twice");
  file = linear_pt2();
  file.node(1)["outputs"] = json::array();
  expect_contains(error_of(file), "nodes[1].outputs: aten::relu gives 1, but 0 are named");
  file = linear_pt2();
  file.graph()["tensor_values"].erase("relu");
  expect_contains(error_of(file), "tensor_values does not say what \"relu\" is");
  file = linear_pt2();
  file.node(1)["outputs"] = {{{"as_tensors", {{{"name", "relu"}}}}}};
  expect_contains(error_of(file), "return 0 of aten::relu is no list");
  file = linear_pt2();
  file.node(1)["outputs"] = {{{"as_custom_obj", {{"name", "relu"}}}}};
  expect_contains(error_of(file), "a value given by as_custom_obj is not supported");
}

} // namespace read_graph_test

} // namespace weft::graph
