#include "tests/support/forms_of.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace rank_gather_test {
using testing::forms_of;

/// The gather found in a program that gathers %x: f32[2,8] of two members to %w: f32[4,8], and continues with `rest`.
std::string gather_of(const std::string& rest) {
  return forms_of(R"(program
      input %x: f32[2,8] = user
      input %b: f32[8,8] = user
        %g: f32[4,8] = _c10d_functional::all_gather_into_tensor(%x, 2, "0")
        %w: f32[4,8] = _c10d_functional::wait_tensor(%g)
      )" + rest);
}

/// Every way to split the result into the members' shards %a and %c.
const char* const kSplits[] = {
    "[%a: f32[2,8], %c: f32[2,8]] = aten::split.Tensor(%w, 2)",
    "[%a: f32[2,8], %c: f32[2,8]] = aten::split.Tensor(%w, 2, 0)",
    "[%a: f32[2,8], %c: f32[2,8]] = aten::split.Tensor(%w, 2, -2)",
    "[%a: f32[2,8], %c: f32[2,8]] = aten::split.sizes(%w, [2, 2])",
    "[%a: f32[2,8], %c: f32[2,8]] = aten::split_with_sizes(%w, [2, 2], 0)",
    "[%a: f32[2,8], %c: f32[2,8]] = aten::chunk(%w, 2)",
    "[%a: f32[2,8], %c: f32[2,8]] = aten::tensor_split.sections(%w, 2)",
    "%a: f32[2,8] = aten::slice.Tensor(%w, 0, 0, 2)\n %c: f32[2,8] = aten::slice.Tensor(%w, 0, 2, 4)",
    "%a: f32[2,8] = aten::slice.Tensor(%w, 0, end=2)\n %c: f32[2,8] = aten::slice.Tensor(%w, -2, 2)",
    "%a: f32[2,8] = aten::slice.Tensor(%w, end=2)\n %c: f32[2,8] = aten::slice.Tensor(%w, 0, -2, 9223372036854775807, "
    "1)",
    "%a: f32[2,8] = aten::narrow(%w, 0, 0, 2)\n %c: f32[2,8] = aten::narrow(%w, 0, 2, 2)",
};

TEST(RankGather, AGatherAndItsWaitAreOneAlongTheFirstDim) {
  EXPECT_EQ(gather_of("output %w = user"), "gather %x -> %w along 0 over 0 of 2: %g %w\n");
}

TEST(RankGather, ShardsThatAreJoinedAlongAnotherDimAreAGatherAlongThat) {
  for (const std::string split : kSplits) {
    const auto found = gather_of(split + R"(
        %j: f32[2,16] = aten::cat([%a, %c], 1)
        output %j = user)");
    EXPECT_TRUE(found.starts_with("gather %x -> %j along 1 over 0 of 2: %g %w %a")) << split << "\n" << found;
    EXPECT_EQ(found.find("kept"), std::string::npos) << split << "\n" << found;
  }
}

TEST(RankGather, TheDimOfAJoinMayBeNegativeNamedOrLeftOut) {
  const std::string split = "[%a: f32[2,8], %c: f32[2,8]] = aten::split.Tensor(%w, 2)\n";
  EXPECT_EQ(
      gather_of(split + "%j: f32[2,16] = aten::cat([%a, %c], -1)\n output %j = user"),
      "gather %x -> %j along 1 over 0 of 2: %g %w %a %j\n");
  EXPECT_EQ(
      gather_of(split + "%j: f32[2,16] = aten::cat([%a, %c], dim=1)\n output %j = user"),
      "gather %x -> %j along 1 over 0 of 2: %g %w %a %j\n");
  EXPECT_EQ(
      gather_of(split + "%j: f32[4,8] = aten::cat([%a, %c])\n output %j = user"),
      "gather %x -> %j along 0 over 0 of 2: %g %w %a %j\n");
}

TEST(RankGather, ShardsMayBeCopiedOnTheWay) {
  EXPECT_EQ(
      gather_of(R"([%a: f32[2,8], %c: f32[2,8]] = aten::split.Tensor(%w, 2)
        %d: f32[2,8] = aten::clone(%a)
        %e: f32[2,8] = aten::contiguous(%d)
        %j: f32[2,16] = aten::cat([%e, %c], 1)
        output %j = user)"),
      "gather %x -> %j along 1 over 0 of 2: %g %w %a %d %e %j\n");
}

TEST(RankGather, AJoinThatIsNoneIsRefusedAndSaysWhy) {
  for (const std::string split : kSplits) {
    const auto joined = [&](const std::string& list, const std::string& type) {
      return gather_of(split + "\n %j: " + type + " = aten::cat([" + list + "], 1)\n output %j = user");
    };
    EXPECT_EQ(joined("%c, %a", "f32[2,16]"), "gather %g: the shards are joined in another order\n") << split;
    EXPECT_EQ(joined("%a", "f32[2,8]"), "gather %g: only 1 of the 2 shards are joined\n") << split;
    EXPECT_EQ(joined("%a, %a", "f32[2,16]"), "gather %g: the shard of member 0 is joined twice\n") << split;
    EXPECT_EQ(joined("%a, %c, %c", "f32[2,24]"), "gather %g: the shard of member 1 is joined twice\n") << split;
    EXPECT_EQ(joined("%a, %x", "f32[2,16]"), "gather %g: the shards are joined with other tensors\n") << split;
    EXPECT_EQ(joined("%x, %a, %c", "f32[2,24]"), "gather %g: the shards are joined with other tensors\n") << split;
  }
}

TEST(RankGather, ShardsOfUnequalSizeAreRefused) {
  EXPECT_EQ(
      gather_of(R"([%a: f32[3,8], %c: f32[1,8]] = aten::split_with_sizes(%w, [3, 1])
        %j: f32[4,8] = aten::cat([%a, %c], 0)
        output %j = user)"),
      "gather %g: the joined tensors are not the members' equal shards\n");
  EXPECT_EQ(
      gather_of(R"(%a: f32[2,8] = aten::slice.Tensor(%w, 0, 0, 2)
        %c: f32[1,8] = aten::slice.Tensor(%w, 0, 2, 3)
        %j: f32[3,8] = aten::cat([%a, %c])
        output %j = user)"),
      "gather %g: the joined tensors are not the members' equal shards\n");
  EXPECT_EQ(
      gather_of(R"(%a: f32[2,8] = aten::slice.Tensor(%w, 0, 0, 4, 2)
        %c: f32[2,8] = aten::slice.Tensor(%w, 0, 2, 4)
        %j: f32[2,16] = aten::cat([%a, %c], 1)
        output %j = user)"),
      "gather %g: the joined tensors are not the members' equal shards\n");
  EXPECT_EQ(
      gather_of(R"(%a: f32[2,8] = aten::slice.Tensor(%w, 0, 0, 2)
        %c: f32[2,8] = aten::slice.Tensor(%w, 0, 1, 3)
        %j: f32[2,16] = aten::cat([%a, %c], 1)
        output %j = user)"),
      "gather %g: the joined tensors are not the members' equal shards\n");
}

TEST(RankGather, ASliceThatTrimsNothingBelongsToItAndOneThatDoesIsRefused) {
  const std::string join = R"(%a: f32[2,8] = aten::slice.Tensor(%w, 0, 0, 2)
        %c: f32[2,8] = aten::slice.Tensor(%w, 0, 2, 4)
        %j: f32[2,16] = aten::cat([%a, %c], 1)
      )";
  EXPECT_EQ(
      gather_of(join + "%s: f32[2,16] = aten::slice.Tensor(%j, 1, 0, 16)\n output %s = user"),
      "gather %x -> %s along 1 over 0 of 2: %g %w %a %c %j %s\n");
  EXPECT_EQ(
      gather_of(join + "%s: f32[2,15] = aten::slice.Tensor(%j, 1, 0, 15)\n output %s = user"),
      "gather %g: only a slice of it is used, of sizes [2,15]\n");
  EXPECT_EQ(
      gather_of("%s: f32[3,8] = aten::slice.Tensor(%w, 0, 0, 3)\n output %s = user"),
      "gather %g: only a slice of it is used, of sizes [3,8]\n");
  // A slice along another dim is a use of the full tensor.
  EXPECT_EQ(
      gather_of("%s: f32[4,3] = aten::slice.Tensor(%w, 1, 0, 3)\n output %s = user"),
      "gather %x -> %w along 0 over 0 of 2: %g %w\n");
}

TEST(RankGather, OneShardAloneIsRefused) {
  EXPECT_EQ(
      gather_of(R"([%a: f32[2,8], %c: f32[2,8]] = aten::split.Tensor(%w, 2)
        %m: f32[2,8] = aten::mm(%c, %b)
        output %m = user)"),
      "gather %g: the shard of member 1 is used by itself\n");
}

TEST(RankGather, TheBitsOfAnotherDtypeAreThoseOfTheShardBefore) {
  // Views of the shards' bits and of the full tensor's; dtypes of one byte or of several.
  EXPECT_EQ(
      forms_of(R"(program
      input %x: bf16[2,8] = user
        %v: u8[2,16] = aten::view.dtype(%x, u8)
        %g: u8[4,16] = _c10d_functional::all_gather_into_tensor(%v, 2, "0")
        %w: u8[4,16] = _c10d_functional::wait_tensor(%g)
        [%a: u8[2,16], %c: u8[2,16]] = aten::split.Tensor(%w, 2)
        %d: bf16[2,8] = aten::view.dtype(%a, bf16)
        %e: bf16[2,8] = aten::view.dtype(%c, bf16)
        %j: bf16[2,16] = aten::cat([%d, %e], 1)
      output %j = user)"),
      "gather %x -> %j along 1 over 0 of 2: %g %w %a %d %e %j\n");
  EXPECT_EQ(
      forms_of(R"(program
      input %x: f8e4m3fn[2,8] = user
        %v: u8[2,8] = aten::view.dtype(%x, u8)
        %g: u8[4,8] = _c10d_functional::all_gather_into_tensor(%v, 2, "0")
        %w: u8[4,8] = _c10d_functional::wait_tensor(%g)
        [%a: u8[2,8], %c: u8[2,8]] = aten::split.Tensor(%w, 2)
        %j: u8[2,16] = aten::cat([%a, %c], 1)
        %d: f8e4m3fn[2,16] = aten::view.dtype(%j, f8e4m3fn)
      output %d = user)"),
      "gather %x -> %d along 1 over 0 of 2: %g %w %a %j %d\n");
  EXPECT_EQ(
      forms_of(R"(program
      input %x: u8[2,8] = user
        %g: u8[4,8] = _c10d_functional::all_gather_into_tensor(%x, 2, "0")
        %w: u8[4,8] = _c10d_functional::wait_tensor(%g)
        %d: f8e4m3fn[4,8] = aten::view.dtype(%w, f8e4m3fn)
      output %d = user)"),
      "gather %x -> %d along 0 over 0 of 2: %g %w %d; viewed as f8e4m3fn\n");
  EXPECT_EQ(
      forms_of(R"(program
      input %x: u8[2,8] = user
        %g: u8[4,8] = _c10d_functional::all_gather_into_tensor(%x, 2, "0")
        %w: u8[4,8] = _c10d_functional::wait_tensor(%g)
        %d: bf16[4,4] = aten::view.dtype(%w, bf16)
      output %d = user)"),
      "gather %g: bits of u8 are gathered and taken for bf16\n");
}

TEST(RankGather, AViewGathersAlongADimBehindDimsOfOneIndex) {
  const std::string head = R"(program
      input %x: f32[1,3,8] = user
        %g: f32[2,3,8] = _c10d_functional::all_gather_into_tensor(%x, 2, "0")
        %w: f32[2,3,8] = _c10d_functional::wait_tensor(%g)
      )";
  EXPECT_EQ(
      forms_of(head + "%v: f32[1,6,8] = aten::view(%w, [1, 6, 8])\n output %v = user"),
      "gather %x -> %v along 1 over 0 of 2: %g %w %v\n");
  // The dim of the members would move past a dim that is not of size 1. So the view is a use of the tensor gathered
  // along 0.
  EXPECT_EQ(
      forms_of(head + "%v: f32[1,3,16] = aten::reshape(%w, [1, 3, 16])\n output %v = user"),
      "gather %x -> %w along 0 over 0 of 2: %g %w\n");
}

TEST(RankGather, MembersMayBeADimOfTheirOwnOnTheWay) {
  EXPECT_EQ(
      gather_of(R"(%s: f32[2,2,8] = aten::view(%w, [2, 2, 8])
        %t: f32[2,2,8|8,16,1] = aten::permute(%s, [1, 0, 2])
        %c: f32[2,2,8] = aten::clone(%t)
        %j: f32[2,16] = aten::_unsafe_view(%c, [2, 16])
        output %j = user)"),
      "gather %x -> %j along 1 over 0 of 2: %g %w %s %t %c %j\n");
  EXPECT_EQ(
      gather_of(R"(%s: f32[2,2,8] = aten::view(%w, [2, 2, 8])
        %t: f32[2,2,8|8,16,1] = aten::transpose.int(%s, 0, 1)
        %j: f32[2,16] = aten::reshape(%t, [2, 16])
        output %j = user)"),
      "gather %x -> %j along 1 over 0 of 2: %g %w %s %t %j\n");
  EXPECT_EQ(
      gather_of(R"(%s: f32[2,2,8] = aten::view(%w, [2, 2, 8])
        [%a: f32[2,8], %c: f32[2,8]] = aten::unbind.int(%s)
        %j: f32[2,16] = aten::cat([%a, %c], 1)
        output %j = user)"),
      "gather %x -> %j along 1 over 0 of 2: %g %w %s %a %j\n");
  // A use of the stacked tensor is a use of the gathered tensor.
  EXPECT_EQ(
      gather_of(R"(%s: f32[2,2,8] = aten::view(%w, [2, 2, 8])
        %r: f32[2,2,8] = aten::relu(%s)
        output %r = user)"),
      "gather %x -> %w along 0 over 0 of 2: %g %w\n");
  // The shards themselves are transposed.
  EXPECT_EQ(
      gather_of(R"(%s: f32[2,2,8] = aten::view(%w, [2, 2, 8])
        %t: f32[2,8,2|16,1,8] = aten::permute(%s, [0, 2, 1])
        %j: f32[16,2] = aten::reshape(%t, [16, 2])
        output %j = user)"),
      "gather %x -> %w along 0 over 0 of 2: %g %w\n");
}

TEST(RankGather, WhatOthersUseOnTheWayIsKept) {
  EXPECT_EQ(
      gather_of(R"([%a: f32[2,8], %c: f32[2,8]] = aten::split.Tensor(%w, 2)
        %j: f32[2,16] = aten::cat([%a, %c], 1)
        %m: f32[4,8] = aten::mm(%w, %b)
        %n: f32[2,8] = aten::mm(%c, %b)
        output %j = user
        output %m = user
        output %n = user
        output %g = user)"),
      "gather %x -> %j along 1 over 0 of 2: %g %w %a %j; kept %g joined 0; kept %w joined 0; kept %c shard 1\n");
  // A second join that is no gather does not change the gather that is found.
  EXPECT_EQ(
      gather_of(R"([%a: f32[2,8], %c: f32[2,8]] = aten::split.Tensor(%w, 2)
        %j: f32[2,16] = aten::cat([%c, %a], 1)
        %m: f32[4,8] = aten::mm(%w, %b)
        output %j = user
        output %m = user)"),
      "gather %x -> %w along 0 over 0 of 2: %g %w\n");
}

TEST(RankGather, ArgumentsMayBeNamed) {
  EXPECT_EQ(
      forms_of(R"(program
      input %x: f32[2,8] = user
        %g: f32[4,8] = _c10d_functional::all_gather_into_tensor(input=%x, group_size=2, group_name="dp,tp")
        %w: f32[4,8] = _c10d_functional::wait_tensor(%g)
      output %w = user)"),
      "gather %x -> %w along 0 over dp,tp of 2: %g %w\n");
}

TEST(RankGather, WhatIsNotWaitedForOnceIsRefused) {
  const std::string head = R"(program
      input %x: f32[2,8] = user
        %g: f32[4,8] = _c10d_functional::all_gather_into_tensor(%x, 2, "0")
      )";
  EXPECT_EQ(forms_of(head + "output %g = user"), "gather %g: nothing waits for it\n");
  EXPECT_EQ(
      forms_of(head + R"(%w: f32[4,8] = _c10d_functional::wait_tensor(%g)
        %v: f32[4,8] = _c10d_functional::wait_tensor(%g)
        output %w = user
        output %v = user)"),
      "gather %g: it is waited for twice\n");
  EXPECT_EQ(
      forms_of(head + R"(%r: f32[4,8] = aten::relu(%g)
        %w: f32[4,8] = _c10d_functional::wait_tensor(%g)
        output %w = user
        output %r = user)"),
      "gather %g: aten::relu uses what has not arrived\n");
}

TEST(RankGather, OneMemberAndSeveralTensorsAreRefused) {
  EXPECT_EQ(
      forms_of(R"(program
      input %x: f32[2,8] = user
        %g: f32[2,8] = _c10d_functional::all_gather_into_tensor(%x, 1, "0")
        %w: f32[2,8] = _c10d_functional::wait_tensor(%g)
      output %w = user)"),
      "gather %g: the group has one member\n");
  EXPECT_EQ(
      forms_of(R"(program
      input %x: f32[2,8] = user
        [%g: f32[4,8], %h: f32[4,8]] = _c10d_functional::all_gather_into_tensor_coalesced([%x, %x], 2, "0")
        %w: f32[4,8] = _c10d_functional::wait_tensor(%g)
        %v: f32[4,8] = _c10d_functional::wait_tensor(%h)
      output %w = user
      output %v = user)"),
      "gather %g: it is one of several tensors at once\n");
}

TEST(RankGather, SizesOfSymbolsAreEqualWhereTheyAreForAllOfThem) {
  const std::string head = R"(program
      symbol s0 = 3 in [2, 64]
      input %x: f32[s0,8] = user
        %n: int(s0) = aten::sym_size.int(%x, 0)
        %m: int(2*s0) = _operator.mul(2, %n)
        %g: f32[2*s0,8] = _c10d_functional::all_gather_into_tensor(%x, 2, "0")
        %w: f32[2*s0,8] = _c10d_functional::wait_tensor(%g)
      )";
  EXPECT_EQ(
      forms_of(head + R"([%a: f32[s0,8], %c: f32[s0,8]] = aten::split.Tensor(%w, %n)
        %j: f32[s0,16] = aten::cat([%a, %c], 1)
        output %j = user)"),
      "gather %x -> %j along 1 over 0 of 2: %g %w %a %j\n");
  EXPECT_EQ(
      forms_of(head + R"(%a: f32[s0,8] = aten::slice.Tensor(%w, 0, 0, %n)
        %c: f32[s0,8] = aten::slice.Tensor(%w, 0, %n, %m)
        %j: f32[s0,16] = aten::cat([%a, %c], 1)
        output %j = user)"),
      "gather %x -> %j along 1 over 0 of 2: %g %w %a %c %j\n");
  // Three rows were half of them at the export, but not for other values of the symbol.
  EXPECT_EQ(
      forms_of(head + R"(%a: f32[s0,8] = aten::slice.Tensor(%w, 0, 0, %n)
        %c: f32[s0,8] = aten::slice.Tensor(%w, 0, 3, %m)
        %j: f32[s0,16] = aten::cat([%a, %c], 1)
        output %j = user)"),
      "gather %g: the joined tensors are not the members' equal shards\n");
}

} // namespace rank_gather_test

} // namespace weft::graph
