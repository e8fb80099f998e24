#include "weft/graph/localize/bucket_collectives.h"

#include "tests/support/program_text.h"

namespace weft::graph {

namespace bucket_collectives_test {
using testing::expect_pass;
using testing::expect_unchanged;

bool bucket(Graph& graph) {
  return bucket_collectives(graph);
}

TEST(BucketCollectives, SmallAllReducesBecomeOne) {
  expect_pass(
      bucket,
      R"(program @ mesh(dp=2)
      input %a: f32[2,3] = user
      input %b: f32[4] = user
      input %c: f32[] = user
        %r: f32[2,3] = _c10d_functional::all_reduce(%a, "sum", "dp")
        %s: f32[4] = _c10d_functional::all_reduce(%b, "sum", "dp")
        %t: f32[] = _c10d_functional::all_reduce(%c, "sum", "dp")
        %u: f32[2,3] = _c10d_functional::wait_tensor(%r)
        %v: f32[4] = _c10d_functional::wait_tensor(%s)
        %w: f32[] = _c10d_functional::wait_tensor(%t)
      output %u = user
      output %v = user
      output %w = user)",
      R"(program @ mesh(dp=2)
      input %a: f32[2,3] = user
      input %b: f32[4] = user
      input %c: f32[] = user
        %reshape: f32[6] = aten::reshape(%a, [6])
        %reshape_1: f32[1] = aten::reshape(%c, [1])
        %cat: f32[11] = aten::cat([%reshape, %b, %reshape_1])
        %all_reduce: f32[11] = _c10d_functional::all_reduce(%cat, "sum", "dp")
        %wait_tensor: f32[11] = _c10d_functional::wait_tensor(%all_reduce)
        [%split_with_sizes: f32[6], %split_with_sizes_1: f32[4], %split_with_sizes_2: f32[1]] = aten::split_with_sizes(%wait_tensor, [6, 4, 1], 0)
        %view: f32[2,3] = aten::view(%split_with_sizes, [2, 3])
        %view_1: f32[] = aten::view(%split_with_sizes_2, [])
      output %view = user
      output %split_with_sizes_1 = user
      output %view_1 = user)");
}

TEST(BucketCollectives, WhatNeedsAResultMovesBehindTheLast) {
  expect_pass(
      bucket,
      R"(program @ mesh(dp=2)
      input %a: f32[4] = user
      input %b: f32[4] = user
        %r: f32[4] = _c10d_functional::all_reduce(%a, "sum", "dp")
        %u: f32[4] = _c10d_functional::wait_tensor(%r)
        %d: f32[4] = aten::relu(%u)
        %e: f32[4] = aten::relu(%b)
        %f: f32[4] = aten::add.Tensor(%d, %e)
        %s: f32[4] = _c10d_functional::all_reduce(%e, "sum", "dp")
        %v: f32[4] = _c10d_functional::wait_tensor(%s)
        %g: f32[4] = aten::add.Tensor(%f, %v)
      output %g = user)",
      R"(program @ mesh(dp=2)
      input %a: f32[4] = user
      input %b: f32[4] = user
        %e: f32[4] = aten::relu(%b)
        %cat: f32[8] = aten::cat([%a, %e])
        %all_reduce: f32[8] = _c10d_functional::all_reduce(%cat, "sum", "dp")
        %wait_tensor: f32[8] = _c10d_functional::wait_tensor(%all_reduce)
        [%split_with_sizes: f32[4], %split_with_sizes_1: f32[4]] = aten::split_with_sizes(%wait_tensor, [4, 4], 0)
        %d: f32[4] = aten::relu(%split_with_sizes)
        %f: f32[4] = aten::add.Tensor(%d, %e)
        %g: f32[4] = aten::add.Tensor(%f, %split_with_sizes_1)
      output %g = user)");
}

TEST(BucketCollectives, SmallAllGathersBecomeOne) {
  expect_pass(
      bucket,
      R"(program @ mesh(tp=2)
      input %a: f32[2,3] = user
      input %b: f32[4] = user
        %r: f32[4,3] = _c10d_functional::all_gather_into_tensor(%a, 2, "tp")
        %u: f32[4,3] = _c10d_functional::wait_tensor(%r)
        %s: f32[8] = _c10d_functional::all_gather_into_tensor(%b, 2, "tp")
        %v: f32[8] = _c10d_functional::wait_tensor(%s)
      output %u = user
      output %v = user)",
      R"(program @ mesh(tp=2)
      input %a: f32[2,3] = user
      input %b: f32[4] = user
        %reshape: f32[6] = aten::reshape(%a, [6])
        %cat: f32[10] = aten::cat([%reshape, %b])
        %all_gather_into_tensor: f32[20] = _c10d_functional::all_gather_into_tensor(%cat, 2, "tp")
        %wait_tensor: f32[20] = _c10d_functional::wait_tensor(%all_gather_into_tensor)
        %view: f32[2,10] = aten::view(%wait_tensor, [2, 10])
        [%split_with_sizes: f32[2,6|10,1], %split_with_sizes_1: f32[2,4|10,1]] = aten::split_with_sizes(%view, [6, 4], 1)
        %reshape_1: f32[4,3] = aten::reshape(%split_with_sizes, [4, 3])
        %reshape_2: f32[8] = aten::reshape(%split_with_sizes_1, [8])
      output %reshape_1 = user
      output %reshape_2 = user)");
}

TEST(BucketCollectives, OnesThatNeedEachOtherStayApart) {
  expect_unchanged(
      bucket,
      R"(program @ mesh(tp=2)
      input %a: f32[4] = user
        %r: f32[4] = _c10d_functional::all_reduce(%a, "sum", "tp")
        %u: f32[4] = _c10d_functional::wait_tensor(%r)
        %b: f32[4] = aten::relu(%u)
        %s: f32[4] = _c10d_functional::all_reduce(%b, "sum", "tp")
        %v: f32[4] = _c10d_functional::wait_tensor(%s)
      output %v = user)");
}

TEST(BucketCollectives, OnesThatNeedEachOtherThroughMemoryStayApart) {
  expect_unchanged(
      bucket,
      R"(program @ mesh(tp=2)
      input %a: f32[4] = user
      input %b: f32[4] = user
        %r: f32[4] = _c10d_functional::all_reduce(%a, "sum", "tp")
        %u: f32[4] = _c10d_functional::wait_tensor(%r)
        %copy: f32[4] = aten::copy_(%b, %u)
        %s: f32[4] = _c10d_functional::all_reduce(%b, "sum", "tp")
        %v: f32[4] = _c10d_functional::wait_tensor(%s)
      output %u = user
      output %v = user)");
}

TEST(BucketCollectives, AWriteToAnOperandStaysBehindTheCollective) {
  expect_pass(
      bucket,
      R"(program @ mesh(tp=2)
      input %a: f32[4] = user
      input %b: f32[4] = user
        %r: f32[4] = _c10d_functional::all_reduce(%a, "sum", "tp")
        %add: f32[4] = aten::add_.Tensor(%a, 1)
        %s: f32[4] = _c10d_functional::all_reduce(%b, "sum", "tp")
        %u: f32[4] = _c10d_functional::wait_tensor(%r)
        %v: f32[4] = _c10d_functional::wait_tensor(%s)
      output %u = user
      output %v = user)",
      R"(program @ mesh(tp=2)
      input %a: f32[4] = user
      input %b: f32[4] = user
        %cat: f32[8] = aten::cat([%a, %b])
        %all_reduce: f32[8] = _c10d_functional::all_reduce(%cat, "sum", "tp")
        %wait_tensor: f32[8] = _c10d_functional::wait_tensor(%all_reduce)
        [%split_with_sizes: f32[4], %split_with_sizes_1: f32[4]] = aten::split_with_sizes(%wait_tensor, [4, 4], 0)
        %add: f32[4] = aten::add_.Tensor(%a, 1)
      output %split_with_sizes = user
      output %split_with_sizes_1 = user)");
}

TEST(BucketCollectives, RandomNumbersAreDrawnInTheirOrder) {
  expect_pass(
      bucket,
      R"(program @ mesh(tp=2)
      input %a: f32[4] = user
      input %b: f32[4] = user
        %r: f32[4] = _c10d_functional::all_reduce(%a, "sum", "tp")
        %u: f32[4] = _c10d_functional::wait_tensor(%r)
        %d: f32[4] = aten::rand_like(%u)
        %e: f32[4] = aten::rand_like(%b)
        %s: f32[4] = _c10d_functional::all_reduce(%b, "sum", "tp")
        %v: f32[4] = _c10d_functional::wait_tensor(%s)
      output %d = user
      output %e = user
      output %v = user)",
      R"(program @ mesh(tp=2)
      input %a: f32[4] = user
      input %b: f32[4] = user
        %cat: f32[8] = aten::cat([%a, %b])
        %all_reduce: f32[8] = _c10d_functional::all_reduce(%cat, "sum", "tp")
        %wait_tensor: f32[8] = _c10d_functional::wait_tensor(%all_reduce)
        [%split_with_sizes: f32[4], %split_with_sizes_1: f32[4]] = aten::split_with_sizes(%wait_tensor, [4, 4], 0)
        %d: f32[4] = aten::rand_like(%split_with_sizes)
        %e: f32[4] = aten::rand_like(%b)
      output %d = user
      output %e = user
      output %split_with_sizes_1 = user)");
}

/// A program of two all_reduces, %r and %s, with nodes between them.
std::string two(
    const std::string& inputs,
    const std::string& first,
    const std::string& between,
    const std::string& second) {
  return "program @ mesh(dp=2,tp=2)\nsymbol s\n" + inputs + first + "\n" + between + "\n" + second + R"(
        %u: f32[4] = _c10d_functional::wait_tensor(%r)
        %v: f32[4] = _c10d_functional::wait_tensor(%s)
      output %u = user
      output %v = user)";
}

TEST(BucketCollectives, OnlyTheSameKindOneAfterTheOtherGoesTogether) {
  const std::string inputs = "input %a: f32[4] = user\ninput %b: f32[4] = user\n";
  const std::string first = "%r: f32[4] = _c10d_functional::all_reduce(%a, \"sum\", \"tp\")";
  const std::string second = "%s: f32[4] = _c10d_functional::all_reduce(%b, \"sum\", \"tp\")";
  expect_unchanged(bucket, two(inputs, first, "", "%s: f32[4] = _c10d_functional::all_reduce(%b, \"sum\", \"dp\")"));
  expect_unchanged(bucket, two(inputs, first, "", "%s: f32[4] = _c10d_functional::all_reduce(%b, \"max\", \"tp\")"));
  expect_unchanged(bucket, two("input %a: f32[4] = user\ninput %b: f16[4] = user\n", first, "", second));
  expect_unchanged(bucket, two(inputs, first, "%i: f32[4] = _c10d_functional::broadcast(%a, 0, \"tp\")", second));
  expect_unchanged(bucket, two("input %a: f32[s] = user\ninput %b: f32[s] = user\n", first, "", second));
  expect_unchanged(bucket, two(inputs, first, "%early: f32[4] = aten::relu(%r)", second));
}

TEST(BucketCollectives, LargeOnesStayAndBucketsHaveALimit) {
  std::string text = "program @ mesh(tp=2)\n";
  std::string results;
  for (const auto* name : {"a", "b", "c", "d"}) {
    text += c10::str("input %", name, ": f32[100] = user\n");
  }
  for (const auto* name : {"a", "b", "c", "d"}) {
    text += c10::str("%r", name, ": f32[100] = _c10d_functional::all_reduce(%", name, ", \"sum\", \"tp\")\n");
    results += c10::str("%w", name, ": f32[100] = _c10d_functional::wait_tensor(%r", name, ")\n");
  }
  for (const auto* name : {"a", "b", "c", "d"}) {
    results += c10::str("output %w", name, " = user\n");
  }
  expect_unchanged([](Graph& graph) { return bucket_collectives(graph, {.small_bytes = 399}); }, text + results);
  auto program = parse_program(text + results);
  const auto limited = [](Graph& graph) {
    return bucket_collectives(graph, {.small_bytes = 400, .bucket_bytes = 800});
  };
  EXPECT_TRUE(limited(*program.graph));
  verify(program);
  size_t starts = 0;
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    starts += target_name(*node) == "_c10d_functional::all_reduce" ? 1 : 0;
  }
  EXPECT_EQ(starts, 2);
  EXPECT_FALSE(limited(*program.graph));
}

TEST(BucketCollectives, RandomProgramsComputeTheSame) {
  std::mt19937 random(11);
  size_t fewer = 0;
  for (int i = 0; i < 200; ++i) {
    const auto text = testing::random_rank_program(random, 5 + i % 40);
    for (const int64_t bytes : {40, 1000}) {
      const BucketOptions options{.small_bytes = 1000, .bucket_bytes = bytes};
      testing::expect_same_results([&](Graph& graph) { return bucket_collectives(graph, options); }, text);
    }
    auto program = parse_program(text);
    const auto before = testing::collectives_of(program).size();
    bucket_collectives(*program.graph);
    fewer += testing::collectives_of(program).size() < before ? 1 : 0;
    ASSERT_FALSE(HasFailure()) << text;
  }
  EXPECT_GT(fewer, 50);
}

} // namespace bucket_collectives_test

} // namespace weft::graph
