#include "weft/graph/pt2/write_graph.h"

#include "tests/support/error_text.h"
#include "tests/support/pt2_file.h"
#include "weft/graph/pt2/read_pt2.h"

namespace weft::graph {

namespace write_graph_test {
using nlohmann::json;
using testing::error_text;
using testing::expect_contains;
using testing::linear_pt2;
using testing::tensor_argument;

TEST(WriteGraph, IsWhatWasRead) {
  auto file = linear_pt2();
  const auto program = read_pt2_bytes(file.bytes());
  const WrittenNames names(program);
  TypeWriter types(program.symbols);
  const auto graph = write_graph(program, names, types);
  for (const auto* key : {"inputs", "outputs", "tensor_values", "sym_int_values"}) {
    EXPECT_EQ(graph[key], file.graph()[key]) << key;
  }
  for (size_t i = 0; i < 2; ++i) {
    for (const auto& [key, value] : file.node(i).items()) {
      EXPECT_EQ(graph["nodes"][i][key], value) << i << " " << key;
    }
  }
  EXPECT_EQ(graph["nodes"][0]["name"], "linear");
  EXPECT_EQ(write_signature(program, names), file.graph_module()["signature"]);
}

TEST(WriteGraph, ConstantInputsAndUpdatesAreWritten) {
  auto program = read_pt2_bytes(linear_pt2().bytes());
  program.inputs.push_back({});
  program.inputs.back().constant = c10::IValue(3);
  program.outputs.push_back({OutputKind::InputMutation, "x", std::nullopt, 0});
  program.outputs.push_back({OutputKind::User, "", c10::IValue(), 0});
  const auto signature = write_signature(program, WrittenNames(program));
  EXPECT_EQ(
      signature["input_specs"][3], json({{"constant_input", {{"name", "constant_3"}, {"value", {{"as_int", 3}}}}}}));
  EXPECT_EQ(
      signature["output_specs"][1],
      json({{"user_input_mutation", {{"arg", {{"name", "relu"}}}, {"user_input_name", "x"}}}}));
  EXPECT_EQ(signature["output_specs"][2], json({{"user_output", {{"arg", {{"as_none", true}}}}}}));
  program.outputs[1].target = "y";
  expect_contains(
      error_text<c10::ValueError>([&] { write_signature(program, WrittenNames(program)); }),
      "[write_pt2] an output updates the input y, but the program has none of this name");
}

TEST(WriteGraph, ListsAndMissingResultsKeepTheirPlaces) {
  Program program;
  auto& graph = *program.graph;
  const auto type = contiguous_type(at::kFloat, {2, 3});
  auto* x = graph.add_input("x", type);
  program.inputs.push_back({InputKind::User, "", true, std::nullopt, x});
  const auto unbind = c10::Dispatcher::singleton().findSchemaOrThrow("aten::unbind", "int");
  graph.insert(nullptr, unbind, {Argument::operand(0), Argument()}, {x}, {{type, type}, {2}, {"a", "b"}});
  const auto topk = c10::Dispatcher::singleton().findSchemaOrThrow("aten::topk", "");
  graph.insert(
      nullptr, topk, {Argument::operand(0), Argument(1), Argument(), Argument(), Argument()}, {x},
      {{type, std::nullopt}, {}, {"c", ""}});
  graph.set_return({x});
  TypeWriter types(program.symbols);
  const auto nodes = write_graph(program, WrittenNames(program), types)["nodes"];
  EXPECT_EQ(nodes[0]["outputs"], json({{{"as_tensors", {{{"name", "a"}}, {{"name", "b"}}}}}}));
  EXPECT_EQ(nodes[0]["name"], "unbind");
  EXPECT_EQ(nodes[0]["target"], "torch.ops.aten.unbind.int");
  EXPECT_EQ(nodes[1]["outputs"], json({tensor_argument("c"), {{"as_none", true}}}));
}

} // namespace write_graph_test

} // namespace weft::graph
