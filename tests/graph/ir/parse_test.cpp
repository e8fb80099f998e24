#include "weft/graph/ir/parse.h"

#include "tests/support/error_text.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace parse_test {
using testing::error_text;
using testing::expect_contains;

constexpr const char* kProgram = R"(program @ mesh(dp=2,tp=4)
symbol s77 = 4 in [2, 1024]
symbol u0 in [0, inf]
symbol u1 in [-inf, 7]
symbol u2
input %p_up_weight: f32[32,16] grad {R, S(0)} = parameter "up.weight"
input %p_table: f32[50,16] {S(0)[1], S(0)[0]} = parameter "a \"table\""
input %b_mean: f32[16] {R, R} = buffer "bn.running_mean"
input %b_mask: bool[4,8|1,4] {R, R} = buffer "mask" not_persistent
input %c: i64[2] cuda:1 {R, R} = constant "c"
input %x: f32[s77,16] {R, R} = user
input %"odd name": i64[s77] {R, R} = user
input 0.5 = user
input "mode" = user "which"
  %sym_size: int(s77) = aten::sym_size.int(%x, 0)
  %floordiv: int((s77//2)) = _operator.floordiv(%sym_size, 2)
  %ge: bool(s77 >= 2) = _operator.ge(%sym_size, 2)
  %item: float = aten::item(%c)
  aten::_assert_scalar(%ge, "Runtime assertion failed for expression s77 >= 2")
  %slice: f32[s77,16] {R, S(1)} = slice(%x, tp: {R, R} -> {R, S(1)})
  %linear: f32[s77,32] {R, S(1)} = aten::linear(%x, %p_up_weight) in layers.0.up
  %all_gather: f32[s77,32] {R, R} = all_gather(%linear, tp: {R, S(1)} -> {R, R})
  %made: f32[s77,32] {P(sum), P(sum)} = make_partial(%all_gather, dp,tp: {R, R} -> {P(sum), P(sum)})
  %reduced: f32[s77,32] {R, R} = all_reduce(%made, dp,tp: {P(sum), P(sum)} -> {R, R})
  %view: f32[s77,2,16] {R, S(1)} = aten::view(%linear, [%sym_size, 2, -1]) sizes(size: [4,2,16] {R, S(1)})
  %embedding: f32[s77,16] {R, P(sum)} = aten::embedding(%p_table, %"odd name") lookup(1: [50] {R, S(0)}, masks output, table 0 dim 0) because "rows are sharded"
  %values: f32[s77,2] {R, R}, %indices: i64[s77,2] {R, R} = aten::topk(%all_gather, 2) fallback because "no rule"
  [%first: f32[s77,16] {R, R}, _] = aten::split.Tensor(%all_gather, 16, 1) in "layers[0]"
  %var: f32[32] {R, R}, _ = aten::var_mean.correction(%all_gather, [0], correction=1)
  %index: f32[s77,1] {R, R} = aten::index.Tensor(%x, [None, %c])
  %to: f64[s77,16] {R, R} = aten::_to_copy(%x, dtype=f64, device=cpu, memory_format=preserve_format)
  %full: f32[2] {R, R} = aten::full([2], -inf, layout=strided, pin_memory=False)
  %add: f32[s77,16] {R, R} = aten::add.Tensor(%x, 1.5, alpha=2)
output %reduced = user
output %b_mean = buffer_mutation "bn.running_mean"
output %p_up_weight = parameter_mutation "up.weight"
output %x = input_mutation "x"
output None = user
output 3 = user
)";

TEST(Parse, APrintedProgramComesBack) {
  const auto program = parse_program(kProgram);
  EXPECT_EQ(to_string(program), kProgram);
}

TEST(Parse, WhatIsReadIsWhatWasWritten) {
  const auto program = parse_program(kProgram);
  verify(program);
  EXPECT_EQ(program.mesh->to_string(), "mesh(dp=2,tp=4)");
  EXPECT_EQ(program.symbols.at("s77").hint, 4);
  EXPECT_EQ(program.symbols.at("u0").max, std::nullopt);
  EXPECT_EQ(program.symbols.at("u1").max, 7);
  const auto& inputs = program.inputs;
  EXPECT_TRUE(inputs[0].value->tensor().requires_grad);
  EXPECT_EQ(inputs[1].target, "a \"table\"");
  EXPECT_EQ(inputs[1].value->layout, Layout({Shard(0), Shard(0)}, {1, 0}));
  EXPECT_FALSE(inputs[3].is_persistent);
  EXPECT_EQ(inputs[3].value->tensor().strides, (Sizes{1, 4}));
  EXPECT_EQ(inputs[4].value->tensor().device, c10::Device(c10::kCUDA, 1));
  EXPECT_EQ(inputs[7].constant->toDouble(), 0.5);
  EXPECT_EQ(inputs[7].value, nullptr);
  EXPECT_EQ(program.graph->inputs().size(), 7);
  std::map<std::string, const Node*> nodes;
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    nodes[target_name(*node)] = node;
  }
  EXPECT_EQ(nodes["all_reduce"]->step()->mesh_dims, (MeshDims{0, 1}));
  EXPECT_EQ(nodes["_operator.floordiv"]->function(), find_scalar_function("_operator.floordiv"));
  EXPECT_EQ(nodes["aten::linear"]->origin.module, "layers.0.up");
  EXPECT_TRUE(nodes["aten::linear"]->arguments()[2].is_absent());
  EXPECT_TRUE(nodes["aten::view"]->arguments()[1].is_list());
  EXPECT_EQ(nodes["aten::view"]->sharding->size_arguments[0].sizes, (std::vector<int64_t>{4, 2, 16}));
  EXPECT_EQ(nodes["aten::split.Tensor"]->output_lists(), std::vector<int64_t>{2});
  EXPECT_EQ(nodes["aten::split.Tensor"]->output(1), nullptr);
  EXPECT_TRUE(nodes["aten::full"]->arguments()[0].is_constant());
  EXPECT_TRUE(nodes["aten::full"]->arguments()[0].constant().isIntList());
  EXPECT_EQ(nodes["aten::_to_copy"]->arguments()[1].constant().toScalarType(), at::kDouble);
  EXPECT_EQ(program.outputs[3].kind, OutputKind::InputMutation);
  EXPECT_EQ(program.outputs[3].operand, 3);
  EXPECT_TRUE(program.outputs[4].constant->isNone());
}

TEST(Parse, SpacesCommentsAndEmptyLinesDoNotCount) {
  EXPECT_EQ(
      to_string(parse_program(R"(
          # what is computed
          program

          input   %x :f32[ 4 , 8 ]=user
            %relu: f32[4,8]=aten::relu( %x )
          output %relu = user)")),
      "program\ninput %x: f32[4,8] = user\n  %relu: f32[4,8] = aten::relu(%x)\noutput %relu = user\n");
}

TEST(Parse, BadTextIsAnErrorWithLineAndColumn) {
  const auto error = [](const std::string& line) {
    return error_text<c10::ValueError>([&] { parse_program("program\ninput %x: f32[4] = user\n" + line + "\n"); });
  };
  EXPECT_EQ(
      error("  %y: f32[4] = aten::relu(%z)"),
      "[parse_program, line 3] expected a value that is defined above at column 27, but got '  %y: f32[4] = "
      "aten::relu(%z)'. See docs/notation.md for the notation.");
  const auto rows = std::vector<std::pair<std::string, std::string>>{
      {"%x: f32[4] = aten::relu(%x)", "a name that is not taken at column 1"},
      {"%y: f32[4], %y: f32[4] = aten::relu(%x)", "a name that is not taken at column 13"},
      {"%y: f32[4] = aten::rellu(%x)", "a step of a redistribution that there is at column 14"},
      {"%y: f32[4] = aten::relu.other(%x)", "a step of a redistribution that there is at column 14"},
      {"%y: f32[4] = aten::relu(%x, 1)", "no more arguments of aten::relu at column 29"},
      {"%y: f32[4] = aten::relu(%x, self=%x)", "no more arguments of aten::relu at column 34"},
      {"%y: f32[4] = aten::relu(%x, inplace=True)", "an argument of aten::relu at column 29"},
      {"%y: f32[4] = aten::relu(%x", "',' at column 27"},
      {"%y: f32[4] = aten::relu(%x) into up", "the end of the text at column 29"},
      {"%y: f32[4] = aten::relu(x)", "a constant of type Tensor at column 25"},
      {"%y: f32[4] {S(0} = aten::relu(%x)", "')' at column 16"},
      {"%y: f32[4] aten::relu(%x)", "a device or grad at column 12"},
      {"%y: f32[4] = all_gather(%x, tp: {S(0)} -> {R})", "a dim of the program's mesh at column 29"},
      {"%y: f32[4]", "'=' at column 11"},
      {"symbol s in [1 2]", "',' at column 16"},
      {"input %z: f32[4] = weights", "one of parameter buffer constant user at column 20"},
      {"output %z = user", "a value that is defined above at column 8"},
      {"output %x", "'=' at column 10"},
  };
  for (const auto& [line, expected] : rows) {
    expect_contains(error(line), "[parse_program, line 3] expected ");
    expect_contains(error(line), expected + ", but got '" + line + "'.");
  }
  expect_contains(
      error("symbol s\nsymbol s"), "[parse_program, line 4] expected a symbol that is not declared above at column 7");
  expect_contains(
      error_text<c10::ValueError>([] { parse_program("input %x: f32[4] = user"); }),
      "[parse_program, line 1] expected program at column 1");
  EXPECT_EQ(
      error_text<c10::ValueError>([] { parse_program("\n"); }),
      "[parse_program] a program begins with the line \"program\", but got an empty text.");
}

} // namespace parse_test

} // namespace weft::graph
