#include "weft/graph/pt2/read_signature.h"

#include "tests/support/error_text.h"
#include "tests/support/pt2_file.h"
#include "weft/graph/pt2/read_pt2.h"

namespace weft::graph {

namespace read_signature_test {
using nlohmann::json;
using testing::error_text;
using testing::expect_contains;
using testing::linear_pt2;
using testing::Pt2File;
using testing::tensor_argument;

std::string error_of(const Pt2File& file) {
  return error_text<c10::Error>([&] { read_pt2_bytes(file.bytes(), "m.pt2"); });
}
json& specs(Pt2File& file, const char* which) {
  return file.graph_module()["signature"][which];
}

TEST(ReadSignature, InputsAreParametersBuffersConstantsAndTheUsers) {
  auto file = linear_pt2();
  auto& inputs = specs(file, "input_specs");
  inputs[0] = {{"buffer", {{"arg", {{"name", "w"}}}, {"buffer_name", "wq.weight"}, {"persistent", false}}}};
  inputs[1] = {{"tensor_constant", {{"arg", {{"name", "b"}}}, {"tensor_constant_name", "wq.bias"}}}};
  inputs.push_back({{"constant_input", {{"name", "k"}, {"value", {{"as_int", 4}}}}}});
  inputs.push_back({{"user_input", {{"arg", {{"as_sym_int", {{"as_name", "n"}}}}}}}});
  file.graph()["inputs"].push_back({{"as_int", 4}});
  file.graph()["inputs"].push_back({{"as_sym_int", {{"as_name", "n"}}}});
  file.graph()["sym_int_values"]["n"] = {{"as_expr", {{"expr_str", "s1"}, {"hint", {{"as_int", 9}}}}}};
  const auto program = read_pt2_bytes(file.bytes());
  ASSERT_EQ(program.inputs.size(), 5u);
  EXPECT_EQ(program.inputs[0].kind, InputKind::Buffer);
  EXPECT_FALSE(program.inputs[0].is_persistent);
  EXPECT_EQ(program.inputs[1].kind, InputKind::Constant);
  EXPECT_EQ(program.inputs[1].target, "wq.bias");
  EXPECT_EQ(program.inputs[2].kind, InputKind::User);
  EXPECT_EQ(program.inputs[2].value, program.graph->inputs()[2]);
  EXPECT_EQ(program.inputs[3].constant->toInt(), 4);
  EXPECT_EQ(program.inputs[3].value, nullptr);
  EXPECT_EQ(program.inputs[3].target, "k");
  EXPECT_EQ(program.inputs[4].value->name(), "n");
  EXPECT_EQ(program.graph->inputs().size(), 4u);
  EXPECT_EQ(program.symbols.at("s1").hint, 9);
}

TEST(ReadSignature, OutputsAreTheUsersOrUpdates) {
  auto file = linear_pt2();
  specs(file, "output_specs") = {
      {{"parameter_mutation", {{"arg", {{"name", "linear"}}}, {"parameter_name", "wq.weight"}}}},
      {{"user_input_mutation", {{"arg", {{"name", "relu"}}}, {"user_input_name", "x"}}}},
      {{"user_output", {{"arg", {{"as_none", true}}}}}},
      {{"user_output", {{"arg", tensor_argument("relu")}}}}};
  file.graph()["outputs"] = {
      tensor_argument("linear"), tensor_argument("relu"), {{"as_none", true}}, tensor_argument("relu")};
  const auto program = read_pt2_bytes(file.bytes());
  EXPECT_EQ(program.outputs[0].kind, OutputKind::ParameterMutation);
  EXPECT_EQ(program.outputs[0].target, "wq.weight");
  EXPECT_EQ(program.outputs[1].kind, OutputKind::InputMutation);
  EXPECT_TRUE(program.outputs[2].constant->isNone());
  EXPECT_EQ(program.outputs[3].operand, 2u);
  EXPECT_EQ(program.graph->return_node()->operand_count(), 3u);

  specs(file, "output_specs")[0] = {{"buffer_mutation", {{"arg", {{"name", "linear"}}}, {"buffer_name", "cache"}}}};
  expect_contains(error_of(file), "signature.output_specs[0]: there is no input \"cache\" to update");
}

TEST(ReadSignature, WhatIsNotSupportedOrDoesNotFitIsNamed) {
  auto file = linear_pt2();
  specs(file, "input_specs")[2] = {{"token", {{"arg", {{"name", "x"}}}}}};
  expect_contains(error_of(file), "signature.input_specs[2]: an input of the kind token is not supported");
  file = linear_pt2();
  specs(file, "output_specs")[0] = {{"loss_output", {{"arg", {{"name", "relu"}}}}}};
  expect_contains(error_of(file), "signature.output_specs[0]: an output of the kind loss_output is not supported");
  file = linear_pt2();
  specs(file, "input_specs").erase(2);
  expect_contains(error_of(file), "one entry per input of the graph is required, 3, but got 2");
  file = linear_pt2();
  specs(file, "output_specs").push_back(specs(file, "output_specs")[0]);
  expect_contains(error_of(file), "one entry per output of the graph is required, 1, but got 2");
  file = linear_pt2();
  file.graph()["outputs"][0] = tensor_argument("nothing");
  expect_contains(error_of(file), "graph.outputs[0].as_tensor.name: the name \"nothing\" is used, but not defined");
}

} // namespace read_signature_test

} // namespace weft::graph
