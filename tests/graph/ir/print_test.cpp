#include "weft/graph/ir/print.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace print_test {
c10::OperatorHandle op(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
}

Argument constant(c10::IValue value) {
  return Argument(std::move(value));
}

Type matrix() {
  return contiguous_type(at::kFloat, {4, 8});
}

TEST(Print, AProgramIsALinePerNode) {
  Program program;
  program.mesh = DeviceMesh::parse("mesh(tp=4)");
  program.symbols["s77"] = {.hint = 4, .min = 2, .max = 1024};
  program.symbols["u0"] = {.hint = std::nullopt, .min = 0, .max = std::nullopt};
  program.symbols["u1"] = {};
  const auto rows = Size::symbol("s77");
  auto& graph = *program.graph;
  auto* weight = graph.add_input("p_up_weight", contiguous_type(at::kFloat, {32, 16}));
  weight->layout = Layout({Shard(0)});
  auto* mean = graph.add_input("b_mean", contiguous_type(at::kFloat, {16}));
  auto* x = graph.add_input("x", contiguous_type(at::kFloat, {rows, 16}));
  x->layout = Layout({Replicate()});
  program.inputs = {
      {.kind = InputKind::Parameter, .target = "up.weight", .value = weight},
      {.kind = InputKind::Buffer, .target = "mean", .is_persistent = false, .value = mean},
      {.kind = InputKind::User, .target = "", .value = x},
      {.kind = InputKind::User, .target = "", .constant = c10::IValue(0.5)}};
  auto* linear = graph.insert(
      nullptr, op("aten::linear"), {Argument::operand(0), Argument::operand(1), Argument()}, {x, weight},
      {.types = {contiguous_type(at::kFloat, {rows, 32})}});
  linear->origin.module = "layers.0.up";
  linear->output()->layout = Layout({Shard(1)});
  auto* gather = graph.insert(
      nullptr, Step{StepKind::AllGather, {0}, {Shard(1)}, {Replicate()}}, {Argument::operand(0)}, {linear->output()},
      {.types = {linear->output()->type}});
  gather->output()->layout = Layout({Replicate()});
  graph.set_return({gather->output(), mean});
  program.outputs = {
      {.kind = OutputKind::User, .target = "", .operand = 0},
      {.kind = OutputKind::BufferMutation, .target = "mean", .operand = 1},
      {.kind = OutputKind::User, .target = "", .constant = c10::IValue()}};
  EXPECT_EQ(
      to_string(program),
      R"(program @ mesh(tp=4)
symbol s77 = 4 in [2, 1024]
symbol u0 in [0, inf]
symbol u1
input %p_up_weight: f32[32,16] {S(0)} = parameter "up.weight"
input %b_mean: f32[16] = buffer "mean" not_persistent
input %x: f32[s77,16] {R} = user
input 0.5 = user
  %linear: f32[s77,32] {S(1)} = aten::linear(%x, %p_up_weight) in layers.0.up
  %all_gather: f32[s77,32] {R} = all_gather(%linear, tp: {S(1)} -> {R})
output %all_gather = user
output %b_mean = buffer_mutation "mean"
output None = user
)");
  EXPECT_EQ(to_string(*gather), "%all_gather: f32[s77,32] {R} = all_gather(%linear, 0: {S(1)} -> {R})");
  EXPECT_EQ(to_string(*graph.return_node()), "return(%all_gather, %b_mean)");
}

TEST(Print, ArgumentsAreNamedBehindAnAbsentOneAndWhereTheSchemaWantsIt) {
  Graph graph;
  auto* x = graph.add_input("x", matrix());
  const auto operand = Argument::operand(0);
  const auto text = [&](const c10::OperatorHandle& target, Arguments arguments) {
    return to_string(*graph.insert(nullptr, target, std::move(arguments), {x}, {.types = {matrix()}, .names = {"y"}}));
  };
  EXPECT_EQ(
      text(op("aten::slice", "Tensor"), {operand, Argument(), constant({}), constant(3), Argument()}),
      "%y: f32[4,8] = aten::slice.Tensor(%x, start=None, end=3)");
  EXPECT_EQ(
      text(op("aten::add", "Tensor"), {operand, constant(2), constant(2)}),
      "%y_1: f32[4,8] = aten::add.Tensor(%x, 2, alpha=2)");
  EXPECT_EQ(
      text(
          op("aten::new_zeros"),
          {operand, constant(c10::List<int64_t>({2})), constant(at::kHalf), Argument(),
           constant(c10::Device(c10::kCPU)), Argument()}),
      "%y_2: f32[4,8] = aten::new_zeros(%x, [2], dtype=f16, device=cpu)");
}

TEST(Print, ListsAndNothingAreShownAmongOutputs) {
  Graph graph;
  auto* x = graph.add_input("x", matrix());
  auto* split = graph.insert(
      nullptr, op("aten::split", "Tensor"), {Argument::operand(0), constant(2), Argument()}, {x},
      {.types = {matrix(), std::nullopt}, .lists = {2}});
  EXPECT_EQ(to_string(*split), "[%split: f32[4,8], _] = aten::split.Tensor(%x, 2)");
  auto* norm = graph.insert(
      nullptr, op("aten::native_layer_norm"),
      {Argument::operand(0), constant(c10::List<int64_t>({8})), constant({}), constant({}), constant(1e-5)}, {x},
      {.types = {matrix(), std::nullopt, matrix()}});
  EXPECT_EQ(
      to_string(*norm),
      "%native_layer_norm: f32[4,8], _, %native_layer_norm_1: f32[4,8] = "
      "aten::native_layer_norm(%x, [8], None, None, 1e-05)");
  auto* assertion =
      graph.insert(nullptr, op("aten::_assert_scalar"), {constant(true), constant("must \"hold\"")}, {}, {});
  EXPECT_EQ(to_string(*assertion), R"(aten::_assert_scalar(True, "must \"hold\""))");
}

TEST(Print, UnusualNamesAreQuoted) {
  Graph graph;
  auto* x = graph.add_input("a b", matrix());
  auto* relu = graph.insert(nullptr, op("aten::relu"), {Argument::operand(0)}, {x}, {.types = {matrix()}});
  relu->origin.module = "layers[0]";
  EXPECT_EQ(to_string(*relu), "%relu: f32[4,8] = aten::relu(%\"a b\") in \"layers[0]\"");
}

} // namespace print_test

} // namespace weft::graph
