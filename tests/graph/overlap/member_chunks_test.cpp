#include "weft/graph/overlap/member_chunks.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace member_chunks_test {
using Kind = Arrangement::Kind;
using Arrangements = std::vector<Arrangement>;

/// How the outputs of a call hold shards, if its first operand %x holds those of two members.
Arrangements made_of(const std::string& type, Arrangement from, const std::string& call, int64_t members = 2) {
  const auto program = parse_program(
      "program\n symbol s0 = 3 in [2, 64]\n input %x: " + type + " = user\n" + call + "\n output %x = user");
  return rearranged(*program.graph->first(), from, members);
}

TEST(MemberPieces, SizesAreTheSameWhereTheyAreForAllSymbols) {
  const auto s = Size::symbol("s");
  const auto t = Size::symbol("t");
  EXPECT_TRUE(is_same(Size(3), Size(3)));
  EXPECT_TRUE(is_same(s * t, t * s));
  EXPECT_FALSE(is_same(s, Size(3)));
  EXPECT_FALSE(is_same(s, t));
  EXPECT_FALSE(is_same(Sizes{s}, Sizes{s, 1}));
  EXPECT_EQ(multiplied({2, s}, 0, 3), (Sizes{6, s}));
}

TEST(MemberPieces, ASplitBetweenShardsGivesThem) {
  const Arrangement joined{Kind::Joined, 0};
  EXPECT_EQ(
      made_of("f32[4,8]", joined, "[%a: f32[2,8], %b: f32[2,8]] = aten::split.Tensor(%x, 2)"),
      (Arrangements{{Kind::Shard, 0}, {Kind::Shard, 1}}));
  EXPECT_EQ(
      made_of("f32[4,8]", joined, "[%a: f32[1,8], %b: f32[3,8]] = aten::split_with_sizes(%x, [1, 3])"),
      (Arrangements{{Kind::Slice, 0}, {Kind::Slice, 1}}));
  EXPECT_EQ(
      made_of("f32[4,8]", joined, "[%a: f32[4,4|8,1], %b: f32[4,4|8,1]] = aten::split.Tensor(%x, 4, 1)"),
      Arrangements());
  EXPECT_EQ(
      made_of("f32[4,8]", joined, "%a: f32[2,8] = aten::slice.Tensor(%x, 0, 2, 4)"), (Arrangements{{Kind::Shard, 1}}));
  EXPECT_EQ(
      made_of("f32[4,8]", joined, "%a: f32[2,8] = aten::slice.Tensor(%x, 0, 1, 3)"), (Arrangements{{Kind::Slice, 0}}));
  EXPECT_EQ(made_of("f32[4,8]", joined, "%a: f32[4,8] = aten::slice.Tensor(%x, 0, 0, 9)"), (Arrangements{joined}));
}

TEST(MemberPieces, AReshapeMovesMembersPastDimsOfOneIndexAlone) {
  EXPECT_EQ(
      made_of("f32[2,3,8]", {Kind::Joined, 0}, "%a: f32[1,6,8] = aten::view(%x, [1, 6, 8])"),
      (Arrangements{{Kind::Joined, 1}}));
  EXPECT_EQ(
      made_of("f32[2,1,4]", {Kind::Joined, 0}, "%a: f32[1,1,8] = aten::view(%x, [1, 1, 8])"),
      (Arrangements{{Kind::Joined, 2}}));
  EXPECT_EQ(made_of("f32[2,3,4]", {Kind::Joined, 0}, "%a: f32[1,3,8] = aten::reshape(%x, [1, 3, 8])"), Arrangements());
  EXPECT_EQ(
      made_of("f32[4,8]", {Kind::Joined, 0}, "%a: f32[2,2,8] = aten::view(%x, [2, 2, 8])"),
      (Arrangements{{Kind::Stacked, 0}}));
  EXPECT_EQ(
      made_of("f32[4,8]", {Kind::Joined, 1}, "%a: f32[4,2,4] = aten::unflatten.int(%x, 1, [2, 4])"),
      (Arrangements{{Kind::Stacked, 1}}));
  EXPECT_EQ(made_of("f32[4,8]", {Kind::Joined, 0}, "%a: f32[32] = aten::view(%x, [32])"), Arrangements());
  // A symbolic size has a known half if it is a multiple of two.
  EXPECT_EQ(
      made_of("f32[2*s0,8]", {Kind::Joined, 0}, "%a: f32[2,s0,8] = aten::view(%x, [2, -1, 8])"),
      (Arrangements{{Kind::Stacked, 0}}));
  EXPECT_EQ(made_of("f32[s0,8]", {Kind::Joined, 0}, "%a: f32[s0,8] = aten::view(%x, [-1, 8])"), Arrangements());
}

TEST(MemberPieces, TheDimOfMembersMayMoveAndTheOthersMayNot) {
  const Arrangement stacked{Kind::Stacked, 0};
  EXPECT_EQ(
      made_of("f32[2,3,4]", stacked, "%a: f32[3,4,2|4,1,12] = aten::permute(%x, [1, 2, 0])"),
      (Arrangements{{Kind::Stacked, 2}}));
  EXPECT_EQ(
      made_of("f32[2,3,4]", stacked, "%a: f32[3,2,4|4,12,1] = aten::transpose.int(%x, 0, 1)"),
      (Arrangements{{Kind::Stacked, 1}}));
  EXPECT_EQ(
      made_of("f32[2,3,4]", stacked, "%a: f32[3,4,2|4,1,12] = aten::movedim.int(%x, 0, -1)"),
      (Arrangements{{Kind::Stacked, 2}}));
  EXPECT_EQ(made_of("f32[2,3,4]", stacked, "%a: f32[2,4,3|12,1,4] = aten::transpose.int(%x, 1, 2)"), Arrangements());
  EXPECT_EQ(
      made_of("f32[2,3,4]", {Kind::Joined, 0}, "%a: f32[3,2,4|4,12,1] = aten::transpose.int(%x, 0, 1)"),
      Arrangements());
}

TEST(MemberPieces, MembersOfADimOfTheirOwnAreTakenOneByOne) {
  const Arrangement stacked{Kind::Stacked, 0};
  EXPECT_EQ(made_of("f32[2,3]", stacked, "%a: f32[3] = aten::select.int(%x, 0, -1)"), (Arrangements{{Kind::Shard, 1}}));
  EXPECT_EQ(made_of("f32[2,3]", stacked, "%a: f32[2|3] = aten::select.int(%x, 1, 0)"), Arrangements());
  EXPECT_EQ(
      made_of("f32[2,3]", stacked, "[%a: f32[3], %b: f32[3]] = aten::unbind.int(%x)"),
      (Arrangements{{Kind::Shard, 0}, {Kind::Shard, 1}}));
}

TEST(MemberPieces, ACopyOfAllOfThemIsAnotherTensor) {
  EXPECT_EQ(made_of("f32[4,8]", {Kind::Joined, 0}, "%a: f32[4,8] = aten::clone(%x)"), Arrangements());
  EXPECT_EQ(
      made_of("f32[4,8]", {Kind::Joined, 0}, "%a: f32[4,8] = aten::alias(%x)"), (Arrangements{{Kind::Joined, 0}}));
  EXPECT_EQ(made_of("f32[4,8]", {Kind::Shard, 1}, "%a: f32[4,8] = aten::clone(%x)"), (Arrangements{{Kind::Shard, 1}}));
  EXPECT_EQ(made_of("f32[4,8]", {Kind::Joined, 0}, "%a: f32[4,8] = aten::relu(%x)"), Arrangements());
}

TEST(MemberPieces, AListJoinsAllShardsInTheirOrderOrNot) {
  const auto program = parse_program(R"(program
      input %a: f32[2,8] = user
      input %b: f32[2,8] = user
        %c: f32[2,16] = aten::cat([%a, %b], -1)
        %d: f32[2,2,8] = aten::stack([%b, %a], 1)
        %e: f32[2,8] = aten::relu(%a)
      output %c = user)");
  const auto* cat = program.graph->first();
  EXPECT_TRUE(joins_tensors(*cat));
  EXPECT_TRUE(joins_tensors(*cat->next()));
  EXPECT_FALSE(joins_tensors(*cat->next()->next()));
  const auto of = [](const Value* value) { return Arrangement{Kind::Shard, value->name() == "a" ? 0 : 1}; };
  EXPECT_EQ(joined_shards(*cat, 2, of).arrangement, (Arrangement{Kind::Joined, 1}));
  EXPECT_EQ(joined_shards(*cat, 3, of).refused, "only 2 of the 3 shards are joined");
  EXPECT_EQ(joined_shards(*cat->next(), 2, of).refused, "the shards are joined in another order");
  const auto reversed = [&](const Value* value) { return Arrangement{Kind::Shard, 1 - of(value).at}; };
  EXPECT_EQ(joined_shards(*cat->next(), 2, reversed).arrangement, (Arrangement{Kind::Stacked, 1}));
  EXPECT_EQ(
      joined_shards(*cat, 2, [](const Value*) { return std::nullopt; }).refused,
      "the shards are joined with other tensors");
}

} // namespace member_chunks_test

} // namespace weft::graph
