#include "weft/graph/analysis/memory_sharing.h"

#include "weft/graph/analysis/memory_writes.h"
#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

#include <map>

namespace weft::graph {

namespace memory_sharing_test {
/// Names of the values that share memory with %x, and whether that memory is written to.
std::pair<std::set<std::string>, bool> sharing_with_x(const std::string& lines) {
  const auto program =
      parse_program("program @ mesh(tp=2)\ninput %x: f32[4,4] = user\n" + lines + "\noutput %x = user\n");
  const MemorySharing memory(*program.graph, Forwarding::Possible);
  const auto* x = program.graph->inputs()[0];
  std::set<std::string> names;
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    for (const auto* output : node->outputs()) {
      if (memory.memory_of(output) == memory.memory_of(x)) {
        names.insert(output->name());
      }
    }
  }
  return {names, MemoryWrites(*program.graph).is_written(x)};
}

using Names = std::set<std::string>;

TEST(MemorySharing, ViewsShareMemoryAndComputedTensorsDoNot) {
  const auto [names, is_written] = sharing_with_x(R"(
      %view: f32[16] = aten::view(%x, [16])
      %slice: f32[8] = aten::slice.Tensor(%view, 0, 0, 8)
      [%a: f32[4], %b: f32[4]] = aten::split.Tensor(%slice, 4)
      %sum: f32[4] = aten::add.Tensor(%a, %b)
      %n: int = aten::sym_size.int(%x, 0))");
  EXPECT_EQ(names, (Names{"view", "slice", "a", "b"}));
  EXPECT_FALSE(is_written);
}

TEST(MemorySharing, AWriteThroughAViewIsAWrite) {
  const auto [names, is_written] = sharing_with_x(R"(
      %view: f32[16] = aten::view(%x, [16])
      %add: f32[16] = aten::add_.Tensor(%view, 1))");
  EXPECT_EQ(names, (Names{"view", "add"}));
  EXPECT_TRUE(is_written);
}

TEST(MemorySharing, AWriteElsewhereIsNone) {
  const auto [names, is_written] = sharing_with_x(R"(
      %relu: f32[4,4] = aten::relu(%x)
      %add: f32[4,4] = aten::add_.Tensor(%relu, %x)
      %detach: f32[4,4] = aten::detach_(%x))");
  EXPECT_EQ(names, Names{"detach"});
  EXPECT_FALSE(is_written);
}

TEST(MemorySharing, WhatMayGiveBackItsOperandSharesMemory) {
  const auto [names, is_written] = sharing_with_x(R"(
      %dropout: f32[4,4] = aten::dropout(%x, 0.5, False)
      %start: f32[4,4] = _c10d_functional::all_reduce(%x, "sum", "tp")
      %contiguous: f32[4,4] = aten::contiguous(%x))");
  EXPECT_EQ(names, (Names{"dropout", "contiguous"}));
  EXPECT_FALSE(is_written);
  const auto program = parse_program(R"(
      program @ mesh(tp=2)
      input %x: f32[4] {R} = user
      %s: f32[4] {S(0)} = slice(%x, tp: {R} -> {S(0)})
      %w: f32[4] = _c10d_functional::wait_tensor(%x)
      output %s = user)");
  const MemorySharing memory(*program.graph, Forwarding::Possible);
  const auto* x = program.graph->inputs()[0];
  EXPECT_EQ(memory.memory_of(program.graph->first()->output()), memory.memory_of(x));
  EXPECT_EQ(memory.memory_of(program.graph->first()->next()->output()), memory.memory_of(x));
}

TEST(MemorySharing, ListsOfTensorsAreWrittenOneByOne) {
  const auto program = parse_program(R"(
      program
      input %a: f32[4] = user
      input %b: f32[4] = user
      input %c: f32[4] = user
      aten::_foreach_add_.Scalar([%a, %b], 1)
      output %c = user)");
  const auto& inputs = program.graph->inputs();
  EXPECT_EQ(written_operands(*program.graph->first()), (std::vector<Value*>{inputs[0], inputs[1]}));
  const MemoryWrites writes(*program.graph);
  EXPECT_TRUE(writes.is_written(inputs[1]));
  EXPECT_FALSE(writes.is_written(inputs[2]));
}

TEST(MemorySharing, ResultsShareMemoryWithTheArgumentsThatTheyAreStoredIn) {
  const auto program = parse_program(R"(
      program
      input %x: f32[4] = user
      input %values: f32[2] = user
      input %indices: i64[2] = user
      %v: f32[2], %i: i64[2] = aten::topk.values(%x, 2, values=%values, indices=%indices)
      output %v = user)");
  const auto& inputs = program.graph->inputs();
  const auto* topk = program.graph->first();
  const MemorySharing memory(*program.graph, Forwarding::Known);
  EXPECT_EQ(memory.memory_of(topk->output(0)), inputs[1]);
  EXPECT_EQ(memory.memory_of(topk->output(1)), inputs[2]);
  EXPECT_EQ(memory.values_sharing(topk->output(1)), (std::vector<const Value*>{inputs[2], topk->output(1)}));
  EXPECT_EQ(memory.memory_of(inputs[0]), inputs[0]);
}

TEST(MemorySharing, OperatorsThatAreKnownToGiveBackAnOperandDoSoByThemselvesAlone) {
  const auto program = parse_program(R"(
      program
      input %x: f32[4] = user
      input %y: f32[4] = user
      %one: f32[4] = aten::einsum("i->i", [%x])
      %two: f32[4] = aten::einsum("i,i->i", [%x, %y])
      [%a: f32[4], %b: f32[4]] = aten::broadcast_tensors([%x, %y])
      %as: f32[4] = aten::type_as(%y, %x)
      output %one = user)");
  const auto& inputs = program.graph->inputs();
  const auto* one = program.graph->first();
  const auto* two = one->next();
  const MemorySharing memory(*program.graph, Forwarding::Known);
  EXPECT_EQ(memory.memory_of(one->output()), inputs[0]);
  EXPECT_EQ(memory.memory_of(two->output()), two->output());
  EXPECT_EQ(memory.memory_of(two->next()->output(0)), inputs[0]);
  EXPECT_EQ(memory.memory_of(two->next()->output(1)), inputs[1]);
  EXPECT_EQ(memory.memory_of(two->next()->next()->output()), inputs[1]);
}

TEST(MemorySharing, KnowsWhatOperatorsWriteTo) {
  const auto written = [](const std::string& line) {
    const auto program = parse_program("program\ninput %x: f32[4] = user\n" + line + "\noutput %x = user\n");
    return written_arguments(*program.graph->first());
  };
  EXPECT_EQ(written("%y: f32[4] = aten::add_.Tensor(%x, 1)"), std::vector<size_t>{0});
  EXPECT_EQ(written("aten::_foreach_add_.Scalar([%x], 1)"), std::vector<size_t>{0});
  EXPECT_EQ(written("%y: f32[4] = aten::add.out(%x, 1, out=%x)"), std::vector<size_t>{3});
  EXPECT_EQ(
      written("%y: f32[4] = aten::batch_norm(%x, None, None, %x, %x, True, 0.1, 1e-05, False)"),
      (std::vector<size_t>{3, 4}));
  EXPECT_TRUE(written("%y: f32[4] = aten::view(%x, [4])").empty());
  EXPECT_TRUE(written("%y: f32[4] = aten::detach_(%x)").empty());
}

} // namespace memory_sharing_test

} // namespace weft::graph
