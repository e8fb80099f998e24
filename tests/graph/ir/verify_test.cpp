#include "weft/graph/ir/verify.h"

#include "tests/support/error_text.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"

#include <gtest/gtest.h>

#include <ctime>

namespace weft::graph {

namespace verify_test {
using testing::error_text;
using testing::expect_contains;

/// The error of a program with these lines between an input %x: f32[4] {R}, an input %n: int and the output %x.
std::string error_of(const std::string& lines) {
  const auto program = parse_program(
      "program @ mesh(tp=2)\ninput %x: f32[4] {R} = user\ninput %n: int = user\n" + lines + "\noutput %x = user\n");
  return error_text<c10::ValueError>([&] { verify(program); });
}

Type vector() {
  return contiguous_type(at::kFloat, {4});
}

c10::OperatorHandle op(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
}

/// A program that returns its input %x.
Program small_program() {
  return parse_program("program\ninput %x: f32[4] = user\n  %relu: f32[4] = aten::relu(%x)\noutput %x = user\n");
}

TEST(Verify, NamesTheRuleAndTheNode) {
  EXPECT_EQ(
      error_of("%y: f32[4] {R} = aten::select.int(%x, 0, 1.5)"),
      "[verify] the argument index is of type SymInt, but got another, in: %y: f32[4] {R} = aten::select.int(%x, 0, "
      "1.5).");
}

TEST(Verify, ArgumentsAreThoseOfTheSchema) {
  expect_contains(
      error_of("%y: f32[4] = aten::select.int(%x, 0)"), "the argument index has no default, but is left out");
  expect_contains(error_of("%y: f32[4] = aten::relu([%x])"), "the argument self is of type Tensor, but got another");
  expect_contains(error_of("%y: f32[4] = aten::view(%x, [%x])"), "the argument size is of type SymInt[]");
  expect_contains(error_of("%y: f32[4] = aten::view(%x, 4)"), "the argument size is of type SymInt[]");
  expect_contains(error_of("%y: f32[4] = aten::to.dtype(%x, True)"), "the argument dtype is of type ScalarType");
  auto program = small_program();
  program.graph->insert(program.graph->return_node(), op("aten::relu"), {}, {}, {.types = {vector()}, .names = {"y"}});
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { verify(program); }),
      "[verify] aten::relu has 1 arguments, but got 0, in: %y: f32[4] = aten::relu().");
}

TEST(Verify, OutputsAreThoseOfTheSchema) {
  expect_contains(error_of("%y: int = aten::relu(%x)"), "return 0 is of type Tensor, but got int");
  expect_contains(error_of("%y: f32[4] = aten::sym_size.int(%x, 0)"), "return 0 is of type SymInt, but got f32[4]");
  expect_contains(error_of("%y: f32[4], %z: f32[4] = aten::relu(%x)"), "aten::relu returns 1 values, but got 2");
  expect_contains(error_of("aten::relu(%x)"), "aten::relu returns 1 values, but got 0");
  expect_contains(error_of("[%y: f32[4]] = aten::relu(%x)"), "return 0 is no list");
  expect_contains(error_of("%y: f32[4] = aten::unbind.int(%x)"), "return 0 is a list");
}

TEST(Verify, FunctionsAreOfNumbers) {
  expect_contains(error_of("%y: int = _operator.add(%n)"), "_operator.add has 2 arguments, but got 1");
  expect_contains(error_of("%y: int = _operator.add(%n, %x)"), "_operator.add is a function of numbers");
  expect_contains(error_of("%y: int = _operator.add(%n, \"1\")"), "_operator.add is a function of numbers");
  expect_contains(error_of("%y: f32[] = _operator.add(%n, 1)"), "_operator.add gives one number");
}

TEST(Verify, AStepGoesFromItsOperandsLayoutToItsOutputs) {
  expect_contains(
      error_of("%y: f32[4] {S(0)} = slice(%x, tp: {P(sum)} -> {S(0)})"),
      "a step begins with its operand's layout, {R}, in: %y: f32[4] {S(0)} = slice(%x, 0: {P(sum)} -> {S(0)}).");
  expect_contains(error_of("%y: f32[4] {R} = slice(%x, tp: {R} -> {S(0)})"), "a step ends with its output's layout");
  expect_contains(
      error_of("%y: f32[5] {S(0)} = slice(%x, tp: {R} -> {S(0)})"), "a step keeps the type of its operand, f32[4]");
  expect_contains(error_of("%y: int = slice(%n, tp: {R} -> {S(0)})"), "a step keeps the type of its operand, int");
  expect_contains(
      error_of("%y: f32[4] {S(0)}, %z: f32[4] {R} = slice(%x, tp: {R} -> {S(0)})"),
      "a step has one operand and one output");
  auto program = parse_program(
      "program @ mesh(tp=2)\ninput %x: f32[4] {R} = user\n"
      "  %y: f32[4] {S(0)} = slice(%x, tp: {R} -> {S(0)})\noutput %y = user\n");
  verify(program);
  auto& graph = *program.graph;
  graph
      .insert(
          graph.return_node(), Step{StepKind::Slice, {1}, {Replicate()}, {Replicate()}}, {Argument::operand(0)},
          {graph.inputs()[0]}, {.types = {vector()}})
      ->output()
      ->layout = Layout({Replicate()});
  expect_contains(
      error_text<c10::ValueError>([&] { verify(program); }), "a step is over mesh dims of its layouts, ascending");
}

TEST(Verify, LayoutsAreOfTensorsOfTheirRankAndOfTheMesh) {
  expect_contains(error_of("%y: f32[4] {S(1)} = aten::relu(%x)"), "a layout shards dims that the tensor has, in: %y");
  expect_contains(error_of("%y: f32[4] {S(-1)} = aten::relu(%x)"), "a layout shards dims that the tensor has");
  expect_contains(error_of("%y: f32[4] {R, R} = aten::relu(%x)"), "all layouts are of one mesh");
  expect_contains(error_of("%y: int {R} = aten::sym_size.int(%x, 0)"), "only a tensor has a layout");
  auto program = parse_program("program @ mesh(dp=2,tp=2)\ninput %x: f32[4] {R} = user\noutput %x = user\n");
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { verify(program); }),
      "[verify] a layout has a placement per dim of the program's mesh, mesh(dp=2,tp=2), but got {R}, in %x.");
  program.mesh.reset();
  expect_contains(error_text<c10::ValueError>([&] { verify(program); }), "of the program's mesh, none, but got {R}");
}

TEST(Verify, SizesAreNotNegativeHaveStridesAndDeclaredSymbols) {
  expect_contains(error_of("%y: f32[-4] {R} = aten::relu(%x)"), "no size is negative");
  expect_contains(error_of("%y: f32[4,4|1] {R} = aten::relu(%x)"), "a tensor has a stride per dim");
  EXPECT_EQ(
      error_of("symbol s0\n%y: f32[s0,2*s1|1,1] {R} = aten::relu(%x)"),
      "[verify] the program declares its symbols, but not s1, in %y: f32[s0,2*s1|1,1].");
  EXPECT_EQ(
      error_of("symbol s0\n%size: int(s0 + s1) = aten::sym_size.int(%x, 0)"),
      "[verify] the program declares its symbols, but not s1, in %size: int(s0 + s1).");
}

TEST(Verify, AValueIsMadeBeforeItIsUsed) {
  auto program = parse_program(
      "program\ninput %x: f32[4] = user\n  %a: f32[4] = aten::relu(%x)\n  %b: f32[4] = aten::relu(%a)\noutput %b = "
      "user\n");
  verify(program);
  program.graph->move_before(program.graph->first()->next(), program.graph->first());
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { verify(program); }),
      "[verify] a value is made before it is used, but %a is not, in: %b: f32[4] = aten::relu(%a).");
}

TEST(Verify, UsesAreThoseOfTheGraph) {
  auto program = small_program();
  auto other = small_program();
  other.graph->insert(
      other.graph->return_node(), op("aten::relu"), {Argument::operand(0)}, {program.graph->inputs()[0]},
      {.types = {vector()}});
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { verify(program); }),
      "[verify] every operand is a use of its value, but there are 2 operands and 3 uses.");
  expect_contains(
      error_text<c10::ValueError>([&] { verify(other); }), "a value is made before it is used, but %x is not");
}

TEST(Verify, ArgumentsAndOperandsBelongTogether) {
  auto program = small_program();
  auto* x = program.graph->inputs()[0];
  auto* result = program.graph->return_node();
  auto* extra = program.graph->insert(
      result, op("aten::relu"), {Argument::operand(0)}, {x, x}, {.types = {vector()}, .names = {"y"}});
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { verify(program); }),
      "[verify] every operand is part of an argument, but operand 1 is of none, in: %y: f32[4] = aten::relu(%x).");
  program.graph->erase(extra);
  program.graph->insert(result, op("aten::relu"), {Argument::operand(1)}, {x}, {.types = {vector()}});
  expect_contains(
      error_text<c10::ValueError>([&] { verify(program); }),
      "an argument is one of the node's 1 operands, but got operand 1, in a call of aten::relu.");
}

TEST(Verify, ShardingIsOfWhatTheCallHas) {
  const auto error = [](CallSharding sharding) {
    auto program = small_program();
    program.graph->first()->sharding = std::make_shared<CallSharding>(std::move(sharding));
    return error_text<c10::ValueError>([&] { verify(program); });
  };
  CallSharding sizes;
  sizes.size_arguments.push_back({1, {4}, Layout({Replicate()})});
  expect_contains(error(sizes), "sizes are of an argument, but got argument 1, in a call of aten::relu.");
  CallSharding lookup;
  lookup.lookup = CallSharding::Lookup{1, 4, Layout({Shard(0)}), false, 0, 0};
  expect_contains(error(lookup), "a lookup is of operands that the node has, in a call of aten::relu.");
  auto program = small_program();
  program.graph->return_node()->sharding = std::make_shared<CallSharding>();
  expect_contains(error_text<c10::ValueError>([&] { verify(program); }), "only an operator is sharded");
}

TEST(Verify, AGraphEndsWithItsReturn) {
  auto program = small_program();
  program.graph->move_before(program.graph->return_node(), program.graph->first());
  expect_contains(
      error_text<c10::ValueError>([&] { verify(program); }), "the return is the last node, in: return(%x).");
  program.graph->erase(program.graph->return_node());
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { verify(program); }), "[verify] a graph ends with a return, but got none.");
}

TEST(Verify, InputsOfTheProgramAreThoseOfTheGraph) {
  const auto error = [](const std::function<void(Program&)>& change) {
    auto program = parse_program(
        "program\ninput %p: f32[4] = parameter \"p\"\ninput %q: f32[4] = parameter \"q\"\noutput %p = user\n");
    change(program);
    return error_text<c10::ValueError>([&] { verify(program); });
  };
  expect_contains(error([](Program& p) { p.inputs.pop_back(); }), "but the graph has 2 and the program 1.");
  expect_contains(
      error([](Program& p) { std::swap(p.inputs[0], p.inputs[1]); }),
      "the program's inputs are the graph's, in order, but input 0 is not.");
  expect_contains(error([](Program& p) { p.inputs[1].target = "p"; }), "has a name of its own, but got \"p\"");
  expect_contains(error([](Program& p) { p.inputs[1].constant = 3; }), "only a user's input is a constant");
}

TEST(Verify, OutputsOfTheProgramAreThoseOfTheGraph) {
  const auto error = [](const std::function<void(Program&)>& change) {
    auto program = small_program();
    change(program);
    return error_text<c10::ValueError>([&] { verify(program); });
  };
  expect_contains(
      error([](Program& p) { p.outputs[0].operand = 1; }),
      "an output is one of the return's 1 operands, but got operand 1");
  expect_contains(error([](Program& p) { p.outputs.clear(); }), "but operand 0 is none.");
  const auto mutation = [](OutputKind kind, const char* target) {
    return [=](Program& p) {
      p.outputs[0].kind = kind;
      p.outputs[0].target = target;
    };
  };
  for (const auto kind : {OutputKind::BufferMutation, OutputKind::ParameterMutation}) {
    expect_contains(error(mutation(kind, "x")), "a mutation is of an input, but got \"x\", which is none of its kind.");
  }
  expect_contains(error(mutation(OutputKind::InputMutation, "y")), "but got \"y\", which is none of its kind.");
  auto program = small_program();
  mutation(OutputKind::InputMutation, "x")(program);
  verify(program);
}

TEST(Verify, TakesLinearTimeAndParsingToo) {
  constexpr int kNodes = 50000;
  std::string text = "program @ mesh(tp=2)\nsymbol s0\ninput %x: f32[s0,4] {R} = user\n";
  std::string last = "x";
  for (int i = 0; i < kNodes; ++i) {
    const auto name = "add_" + std::to_string(i);
    text += "  %" + name + ": f32[s0,4] {R} = aten::add.Tensor(%" + last + ", %x, alpha=2) in layers.0\n";
    last = name;
  }
  text += "output %" + last + " = user\n";
  // CPU time of this process, because other processes may keep the machine busy.
  const auto seconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  const auto start = seconds();
  const auto program = parse_program(text);
  const auto parsed = seconds();
  verify(program);
  const auto verified = seconds();
  EXPECT_EQ(to_string(program), text);
  EXPECT_LT(parsed - start, 10);
  EXPECT_LT(verified - parsed, 5);
}

} // namespace verify_test

} // namespace weft::graph
