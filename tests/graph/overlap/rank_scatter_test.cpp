#include "tests/support/forms_of.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace rank_scatter_test {
using testing::forms_of;

/// The scatter found in a program that splits %x: f32[4,8] for two members by `split`, scatters %j: f32[8,4], and
/// returns the result.
std::string scatter_of(const std::string& split, const std::string& outputs = "output %w = user") {
  return forms_of(R"(program
      input %x: f32[4,8] = user
      input %y: f32[4,4] = user
      )" + split + R"(
        %r: f32[4,4] = _c10d_functional::reduce_scatter_tensor(%j, "sum", 2, "0")
        %w: f32[4,4] = _c10d_functional::wait_tensor(%r)
      )" + outputs);
}

/// Every way to split %x along dim 1 into %a and %c.
const char* const kSplits[] = {
    "[%a: f32[4,4|8,1], %c: f32[4,4|8,1]] = aten::split.Tensor(%x, 4, 1)",
    "[%a: f32[4,4|8,1], %c: f32[4,4|8,1]] = aten::split.Tensor(%x, 4, -1)",
    "[%a: f32[4,4|8,1], %c: f32[4,4|8,1]] = aten::split.sizes(%x, [4, 4], dim=1)",
    "[%a: f32[4,4|8,1], %c: f32[4,4|8,1]] = aten::split_with_sizes(%x, [4, 4], 1)",
    "[%a: f32[4,4|8,1], %c: f32[4,4|8,1]] = aten::chunk(%x, 2, 1)",
    "%a: f32[4,4|8,1] = aten::slice.Tensor(%x, 1, 0, 4)\n %c: f32[4,4|8,1] = aten::slice.Tensor(%x, 1, 4, 8)",
    "%a: f32[4,4|8,1] = aten::slice.Tensor(%x, -1, end=4)\n %c: f32[4,4|8,1] = aten::slice.Tensor(%x, 1, -4)",
    "%a: f32[4,4|8,1] = aten::narrow(%x, 1, 0, 4)\n %c: f32[4,4|8,1] = aten::narrow(%x, 1, 4, 4)",
};

TEST(RankScatter, AScatterAndItsWaitAreOneAlongTheFirstDim) {
  EXPECT_EQ(
      forms_of(R"(program
      input %x: f32[8,4] = user
        %r: f32[4,4] = _c10d_functional::reduce_scatter_tensor(%x, "AVG", 2, "0")
        %w: f32[4,4] = _c10d_functional::wait_tensor(%r)
      output %w = user)"),
      "scatter(avg) %x -> %w along 0 over 0 of 2: %r %w\n");
}

TEST(RankScatter, ShardsOfAnotherDimAreAScatterAlongThat) {
  for (const std::string split : kSplits) {
    for (const std::string join : {"aten::cat([%a, %c])", "aten::cat([%a, %c], 0)", "aten::cat([%a, %c], dim=-2)"}) {
      const auto found = scatter_of(split + "\n %j: f32[8,4] = " + join);
      EXPECT_TRUE(found.starts_with("scatter(sum) %x -> %w along 1 over 0 of 2: %a ")) << split << "\n" << found;
      EXPECT_TRUE(found.ends_with("%j %r %w\n")) << split << "\n" << found;
    }
  }
}

TEST(RankScatter, ShardsMayBeCopiedOnTheWay) {
  EXPECT_EQ(
      scatter_of(R"([%a: f32[4,4|8,1], %c: f32[4,4|8,1]] = aten::split.Tensor(%x, 4, 1)
        %d: f32[4,4] = aten::clone(%a)
        %e: f32[4,4] = aten::contiguous(%d)
        %j: f32[8,4] = aten::cat([%e, %c]))"),
      "scatter(sum) %x -> %w along 1 over 0 of 2: %a %d %e %j %r %w\n");
}

TEST(RankScatter, ShardsOfTheFirstDimInTheirOrderAreTheSameTensor) {
  EXPECT_EQ(
      forms_of(R"(program
      input %x: f32[8,4] = user
        [%a: f32[4,4], %c: f32[4,4]] = aten::split.Tensor(%x, 4)
        %j: f32[8,4] = aten::cat([%a, %c])
        %r: f32[4,4] = _c10d_functional::reduce_scatter_tensor(%j, "sum", 2, "0")
        %w: f32[4,4] = _c10d_functional::wait_tensor(%r)
      output %w = user)"),
      "scatter(sum) %x -> %w along 0 over 0 of 2: %a %j %r %w\n");
}

TEST(RankScatter, AJoinThatIsNoneIsRefusedAndSaysWhy) {
  for (const std::string split : kSplits) {
    const auto joined = [&](const std::string& list) {
      return scatter_of(split + "\n %j: f32[8,4] = aten::cat([" + list + "])");
    };
    EXPECT_EQ(joined("%c, %a"), "scatter %r: the shards are joined in another order\n") << split;
    EXPECT_EQ(joined("%c, %c"), "scatter %r: the shard of member 1 is joined twice\n") << split;
    // A join of different tensors is an input like any other.
    EXPECT_EQ(joined("%a, %y"), "scatter(sum) %j -> %w along 0 over 0 of 2: %r %w\n") << split;
  }
  EXPECT_EQ(
      scatter_of(R"(%a: f32[4,4|8,1] = aten::slice.Tensor(%x, 1, 0, 4)
        %c: f32[4,4|8,1] = aten::slice.Tensor(%x, 1, 3, 7)
        %j: f32[8,4] = aten::cat([%a, %c]))"),
      "scatter %r: the joined tensors are not the members' equal shards\n");
  EXPECT_EQ(
      scatter_of(R"([%a: f32[4,2|8,1], %c: f32[4,2|8,1], %d: f32[4,4|8,1]] = aten::split_with_sizes(%x, [2, 2, 4], 1)
        %j: f32[8,4] = aten::cat([%d, %d]))"),
      "scatter %r: the joined tensors are not the members' equal shards\n");
}

TEST(RankScatter, ViewsAndMovesOfDimsAreSeenThrough) {
  EXPECT_EQ(
      forms_of(R"(program
      input %x: f32[1,6,8] = user
        %v: f32[2,3,8] = aten::view(%x, [2, 3, 8])
        %r: f32[1,3,8] = _c10d_functional::reduce_scatter_tensor(%v, "sum", 2, "0")
        %w: f32[1,3,8] = _c10d_functional::wait_tensor(%r)
      output %w = user)"),
      "scatter(sum) %x -> %w along 1 over 0 of 2: %v %r %w\n");
  EXPECT_EQ(
      scatter_of(R"(%v: f32[4,2,4] = aten::view(%x, [4, 2, 4])
        %t: f32[2,4,4|4,8,1] = aten::permute(%v, [1, 0, 2])
        %j: f32[8,4] = aten::reshape(%t, [8, 4]))"),
      "scatter(sum) %x -> %w along 1 over 0 of 2: %v %t %j %r %w\n");
  // A reshape that only changes the number of dims does not belong to the scatter.
  EXPECT_EQ(
      forms_of(R"(program
      input %x: f32[8,4] = user
        %v: f32[4,2,4] = aten::view(%x, [4, 2, 4])
        %r: f32[2,2,4] = _c10d_functional::reduce_scatter_tensor(%v, "max", 2, "0")
        %w: f32[2,2,4] = _c10d_functional::wait_tensor(%r)
      output %w = user)"),
      "scatter(max) %v -> %w along 0 over 0 of 2: %r %w\n");
}

TEST(RankScatter, WhatIsSavedAndWhatIsKeptIsSaid) {
  const std::string split = R"([%a: f32[4,4|8,1], %c: f32[4,4|8,1]] = aten::split.Tensor(%x, 4, 1)
        %j: f32[8,4] = aten::cat([%a, %c]))";
  EXPECT_EQ(
      scatter_of(split, "output %w = user\n output %r = user"),
      "scatter(sum) %x -> %w along 1 over 0 of 2: %a %j %r %w; saved %r\n");
  EXPECT_EQ(
      scatter_of(split, "output %w = user\n output %x = user"),
      "scatter(sum) %x -> %w along 1 over 0 of 2: %a %j %r %w; kept\n");
  EXPECT_EQ(
      scatter_of(split, "output %w = user\n output %j = user"),
      "scatter(sum) %x -> %w along 1 over 0 of 2: %a %j %r %w; kept\n");
  // The result may have several uses.
  EXPECT_EQ(
      scatter_of(split, "%s: f32[4,4] = aten::relu(%w)\n output %w = user\n output %s = user"),
      "scatter(sum) %x -> %w along 1 over 0 of 2: %a %j %r %w\n");
}

TEST(RankScatter, WhatIsNotWaitedForIsRefused) {
  EXPECT_EQ(
      forms_of(R"(program
      input %x: f32[8,4] = user
        %r: f32[4,4] = _c10d_functional::reduce_scatter_tensor(%x, "sum", 2, "0")
        %s: f32[4,4] = aten::relu(%r)
        %w: f32[4,4] = _c10d_functional::wait_tensor(%r)
      output %w = user
      output %s = user)"),
      "scatter %r: aten::relu uses what has not arrived\n");
}

TEST(RankScatter, AnAllReduceIsOneOfTheMembersThatItsMeshDimsHave) {
  EXPECT_EQ(
      forms_of(R"(program @ mesh(dp=2,tp=3)
      input %x: f32[8,4] = user
      input %z: f32[8,4] = user
        %r: f32[8,4] = _c10d_functional::all_reduce(%x, "sum", "dp,tp")
        %w: f32[8,4] = _c10d_functional::wait_tensor(%r)
        %s: f32[8,4] = _c10d_functional::all_reduce(%w, "MAX", group_name="7")
        %v: f32[8,4] = _c10d_functional::wait_tensor(%s)
        %i: f32[8,4] = _c10d_functional::all_reduce_(%z, "sum", "tp")
      output %v = user
      output %r = user)"),
      "reduction(sum) %x -> %w over dp,tp of 6: %r %w; saved %r\n"
      "reduction(max) %w -> %v over 7 of 0: %s %v\n"
      "reduction %i: it writes to a tensor that is given\n");
}

} // namespace rank_scatter_test

} // namespace weft::graph
