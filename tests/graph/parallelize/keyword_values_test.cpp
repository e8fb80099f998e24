#include "weft/graph/parallelize/keyword_values.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace keyword_values_test {
/// A model with a layer that is called as layer(x, mask=m, pair=(x, m)), and then as layer(x, mask=x).
Program layers() {
  auto program = parse_program(R"(program
input %x: f32[4] = user
input %m: f32[4] = user
  %y: f32[4] = aten::add.Tensor(%x, %m)
output %y = user
)");
  program.calling_convention = R"({"module_call_graph": [
    {"fqn": "", "signature": {"inputs": [], "in_spec": "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[\\\"m\\\"]\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}]}]"}},
    {"fqn": "layer", "signature": {"inputs": [{"as_tensor": {"name": "x"}}, {"as_tensor": {"name": "m"}}, {"as_tensor": {"name": "x"}}, {"as_tensor": {"name": "m"}}], "in_spec": "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[\\\"mask\\\", \\\"pair\\\"]\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]}]}]"}},
    {"fqn": "layer@1", "signature": {"inputs": [{"as_tensor": {"name": "x"}}, {"as_tensor": {"name": "x"}}], "in_spec": "[1, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}, {\"type\": \"builtins.dict\", \"context\": \"[\\\"mask\\\"]\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}]}]}]"}},
    {"fqn": "other", "signature": null}]})";
  return program;
}

TEST(KeywordValues, AreTheValuesThatModulesWereCalledWith) {
  EXPECT_EQ(keyword_values(layers()), (KeywordValues{{"", {{"m", {"m"}}}}, {"layer", {{"mask", {"m", "x"}}}}}));
}

TEST(KeywordValues, AreNotKnownWhereTheProgramDoesNotRecordCalls) {
  auto program = layers();
  for (const std::string text : {"", "{}", "no json", R"({"module_call_graph": [{"fqn": "layer"}]})"}) {
    program.calling_convention = text;
    EXPECT_TRUE(keyword_values(program).empty()) << text;
  }
}

} // namespace keyword_values_test

} // namespace weft::graph
