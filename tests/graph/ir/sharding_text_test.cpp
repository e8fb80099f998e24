#include "weft/graph/ir/sharding_text.h"

#include "tests/support/error_text.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <gtest/gtest.h>

namespace weft::graph {

namespace sharding_text_test {
using testing::error_text;
using testing::expect_contains;

const c10::FunctionSchema& schema(const char* name, const char* overload = "") {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).schema();
}

CallSharding parsed(std::string_view text, const c10::FunctionSchema& schema) {
  TextCursor cursor("test", text);
  auto sharding = parse_sharding(cursor, schema);
  cursor.expect_end();
  return sharding;
}

TEST(ShardingText, WhatDiffersOnRanksParsesBack) {
  const auto& view = schema("aten::view");
  for (const auto* text :
       {"", " sizes(size: [4,8] {S(1)})", " sizes(size: [] {R, S(0)[1], S(0)[0]})", " fallback because \"no rule\"",
        " because \"asked\""}) {
    EXPECT_EQ(sharding_text(parsed(text, view), view), text);
  }
  const auto& embedding = schema("aten::embedding");
  for (const auto* text : {" lookup(1: [50] {S(0)}, masks output, table 0 dim 0)", " lookup(0: [50] {S(0)})"}) {
    EXPECT_EQ(sharding_text(parsed(text, embedding), embedding), text);
  }
}

TEST(ShardingText, EveryPartComesBack) {
  const auto& view = schema("aten::view");
  const auto sharding =
      parsed(" sizes(size: [4,8] {S(1)}) lookup(1: [50] {S(0)}, masks output, table 2 dim 3) fallback", view);
  EXPECT_EQ(sharding.size_arguments.at(0).argument, 1);
  EXPECT_EQ(sharding.size_arguments.at(0).sizes, (std::vector<int64_t>{4, 8}));
  EXPECT_EQ(sharding.size_arguments.at(0).layout, Layout({Shard(1)}));
  EXPECT_EQ(sharding.lookup->operand, 1);
  EXPECT_EQ(sharding.lookup->size, 50);
  EXPECT_EQ(sharding.lookup->layout, Layout({Shard(0)}));
  EXPECT_TRUE(sharding.lookup->masks_output);
  EXPECT_EQ(sharding.lookup->table, 2);
  EXPECT_EQ(sharding.lookup->table_dim, 3);
  EXPECT_TRUE(sharding.is_fallback);
}

TEST(ShardingText, StepsParseBackWithTheirLayouts) {
  const std::optional<DeviceMesh> mesh = DeviceMesh::parse("mesh(dp=2,tp=4)");
  for (const auto* text : {"tp: {R, S(1)} -> {R, R}", "dp,tp: {S(0)[1], S(0)[0]} -> {R, R}", ": {R, R} -> {R, R}"}) {
    TextCursor cursor("test", text);
    const auto step = parse_step(cursor, StepKind::AllGather, mesh);
    EXPECT_EQ(step.kind, StepKind::AllGather);
    EXPECT_EQ(step_text(step, &*mesh), text);
  }
  EXPECT_EQ(
      step_text({StepKind::AllReduce, {0, 1}, {Partial(), Partial()}, {Replicate(), Replicate()}}, nullptr),
      "0,1: {P(sum), P(sum)} -> {R, R}");
}

TEST(ShardingText, BadTextIsAnErrorWithThePlace) {
  const auto& view = schema("aten::view");
  expect_contains(
      error_text<c10::ValueError>([&] { parsed("sizes(sizes: [4] {R})", view); }),
      "[test] expected an argument of aten::view at column 7");
  TextCursor cursor("test", "pp: {R} -> {R}");
  expect_contains(
      error_text<c10::ValueError>([&] { parse_step(cursor, StepKind::Slice, DeviceMesh::parse("mesh(tp=2)")); }),
      "[test] expected a dim of the program's mesh at column 1");
}

} // namespace sharding_text_test

} // namespace weft::graph
