#include "weft/graph/pt2/calling_convention.h"

#include "tests/support/error_text.h"
#include "tests/support/pt2_file.h"
#include "weft/graph/pt2/read_pt2.h"

namespace weft::graph {

namespace calling_convention_test {
using nlohmann::json;
using testing::error_text;
using testing::expect_contains;
using testing::linear_pt2;
using testing::Pt2File;
using testing::tensor_argument;

const char* const kInSpec =
    R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [{"type": "builtins.list", "context": "null",)"
    R"( "children_spec": [{"type": null, "context": null, "children_spec": []}]}]}])";
const char* const kOutSpec = R"([1, {"type": null, "context": null, "children_spec": []}])";

/// linear_pt2, called with a list of one tensor.
Pt2File called_with_a_list() {
  auto file = linear_pt2();
  const json inside = {{"inputs", {tensor_argument("x")}}, {"outputs", {tensor_argument("linear")}}, {"in_spec", "[]"}};
  file.graph_module()["module_call_graph"] = {
      {{"fqn", ""},
       {"signature",
        {{"inputs", json::array()}, {"outputs", json::array()}, {"in_spec", kInSpec}, {"out_spec", kOutSpec}}}},
      {{"fqn", "wq"}, {"signature", inside}}};
  file.model["guards_code"] = {"L['x'].size()[1] == 2"};
  return file;
}

TEST(CallingConvention, IsKeptAsTheFileHasIt) {
  const auto program = read_pt2_bytes(called_with_a_list().bytes());
  const auto convention = calling_convention_of(program);
  EXPECT_EQ(convention["module_call_graph"][0]["signature"]["in_spec"], kInSpec);
  EXPECT_EQ(convention["module_call_graph"][1]["signature"]["outputs"][0], tensor_argument("linear"));
  EXPECT_EQ(convention["verifiers"], json::array({"TRAINING"}));
  EXPECT_EQ(convention["guards_code"].size(), 1u);
}

TEST(CallingConvention, ConditionsOnInputsGoWithTheInputs) {
  auto program = read_pt2_bytes(called_with_a_list().bytes());
  std::get<TensorType>(program.inputs[2].value->type).sizes[1] = 1;
  EXPECT_EQ(calling_convention_of(program)["guards_code"].size(), 0u);
}

TEST(CallingConvention, SignaturesOfValuesThatAreGoneAreDropped) {
  auto file = called_with_a_list();
  file.graph_module()["module_call_graph"][1]["signature"]["outputs"] = {tensor_argument("gone")};
  const auto program = read_pt2_bytes(file.bytes());
  EXPECT_TRUE(calling_convention_of(program)["module_call_graph"][1]["signature"].is_null());
}

TEST(CallingConvention, IsFlatWhereThereIsNoneOrItDoesNotFit) {
  auto program = read_pt2_bytes(called_with_a_list().bytes());
  program.outputs.push_back(program.outputs[0]);
  const auto flat = calling_convention_of(program);
  EXPECT_EQ(flat["module_call_graph"].size(), 1u);
  const auto out_spec = json::parse(flat["module_call_graph"][0]["signature"]["out_spec"].get<std::string>());
  EXPECT_EQ(out_spec[1]["children_spec"].size(), 2u);

  program.outputs.pop_back();
  program.calling_convention.clear();
  const auto signature = calling_convention_of(program)["module_call_graph"][0]["signature"];
  EXPECT_EQ(json::parse(signature["out_spec"].get<std::string>()), json::parse(kOutSpec));
  const auto arguments = json::parse(signature["in_spec"].get<std::string>())[1]["children_spec"];
  EXPECT_EQ(arguments[0]["children_spec"].size(), 1u);
  EXPECT_EQ(arguments[1]["type"], "builtins.dict");

  program.calling_convention = "{";
  expect_contains(
      error_text<c10::ValueError>([&] { calling_convention_of(program); }),
      "[write_pt2] a program's calling convention must be empty or JSON as torch.export writes it");
}

TEST(CallingConvention, ThatIsOfAnotherFormIsAPlainErrorOrFlat) {
  auto file = called_with_a_list();
  file.graph_module()["module_call_graph"][1]["signature"]["inputs"] = json::array({nullptr});
  expect_contains(
      error_text<c10::ValueError>([&] { calling_convention_of(read_pt2_bytes(file.bytes())); }),
      "[write_pt2] a program's calling convention must be empty or JSON as torch.export writes it");
  file = called_with_a_list();
  file.graph_module()["module_call_graph"][0]["signature"]["in_spec"] = std::string(50000, '[');
  expect_contains(
      error_text<c10::ValueError>([&] { calling_convention_of(read_pt2_bytes(file.bytes())); }),
      "[write_pt2] the program's in_spec must nest at most 200 lists and objects");
}

} // namespace calling_convention_test

} // namespace weft::graph
