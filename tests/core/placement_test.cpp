#include "weft/core/placement.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

#include <sstream>
#include <tuple>
#include <unordered_set>

namespace weft {

namespace placement_test {
using testing::error_text;

struct Written {
  Placement placement;
  std::string text;
};

const std::vector<Written> kWritten = {
    {Replicate(), "R"},
    {Shard(0), "S(0)"},
    {Shard(1), "S(1)"},
    {Shard(-1), "S(-1)"},
    {Shard(32767), "S(32767)"},
    {StridedShard(0, 2), "SS(0,2)"},
    {StridedShard(1, 2), "SS(1,2)"},
    {StridedShard(0, 3), "SS(0,3)"},
    {StridedShard(-2, 2147483647), "SS(-2,2147483647)"},
    {StridedShard(0, {4, 1, 1}), "SS(0,4:1:1)"},
    {StridedShard(0, {1, 4, 1}), "SS(0,1:4:1)"},
    {StridedShard(1, {4, 1, 1}), "SS(1,4:1:1)"},
    {StridedShard(-1, {1, 2147483647}), "SS(-1,1:2147483647)"},
    {RaggedShard(0, {3, 0, 5}), "S(0|3:0:5)"},
    {RaggedShard(0, {6, 0, 10}), "S(0|6:0:10)"},
    {RaggedShard(-1, {4, 1, 1}), "S(-1|4:1:1)"},
    {RaggedShard(2, c10::IntArrayRef({8})), "S(2|8)"},
    {Partial(), "P(sum)"},
    {Partial(ReduceOp::Avg), "P(avg)"},
    {Partial(ReduceOp::Max), "P(max)"},
    {Partial(ReduceOp::Min), "P(min)"},
    {Partial(ReduceOp::Product), "P(product)"},
};

TEST(Placement, TextParsesBackToTheSamePlacement) {
  for (const auto& [placement, text] : kWritten) {
    EXPECT_EQ(placement.to_string(), text);
    EXPECT_EQ(Placement::parse(text), placement) << text;
    std::ostringstream stream;
    stream << placement;
    EXPECT_EQ(stream.str(), text);
  }
}

TEST(Placement, EqualityAndHashTellAllPlacementsApart) {
  std::unordered_set<Placement> set;
  for (size_t i = 0; i < kWritten.size(); ++i) {
    for (size_t j = 0; j < kWritten.size(); ++j) {
      EXPECT_EQ(kWritten[i].placement == kWritten[j].placement, i == j) << kWritten[i].text << " " << kWritten[j].text;
    }
    EXPECT_EQ(kWritten[i].placement.hash(), Placement::parse(kWritten[i].text).hash()) << kWritten[i].text;
    set.insert(kWritten[i].placement);
    set.insert(Placement::parse(kWritten[i].text));
  }
  EXPECT_EQ(set.size(), kWritten.size());
}

TEST(Placement, DefaultIsReplicate) {
  EXPECT_EQ(Placement(), Replicate());
  EXPECT_TRUE(Placement().is_replicate());
}

TEST(Placement, SplitFactorOfOneIsAPlainShard) {
  EXPECT_EQ(StridedShard(2, 1), Shard(2));
  EXPECT_EQ(Placement::parse("SS(2,1)").to_string(), "S(2)");
}

TEST(Placement, BlocksAreGivenRelativeToEachOther) {
  EXPECT_EQ(StridedShard(0, {8, 2, 2}), StridedShard(0, {4, 1, 1}));
  EXPECT_EQ(StridedShard(0, {6, 6, 6}), StridedShard(0, 3));
  EXPECT_EQ(StridedShard(0, c10::IntArrayRef({5})), Shard(0));
  const auto unequal = StridedShard(-1, {4, 1, 1});
  EXPECT_TRUE(unequal.is_strided() && unequal.has_unequal_blocks() && !StridedShard(0, 3).has_unequal_blocks());
  EXPECT_EQ(unequal.split_factor(), 3);
  EXPECT_EQ(unequal.block_sizes(), c10::IntArrayRef({4, 1, 1}));
  EXPECT_EQ(unequal.along(2), StridedShard(2, {4, 1, 1}));
  EXPECT_EQ(unequal.normalized(3), StridedShard(2, {4, 1, 1}));
  EXPECT_NE(unequal.blocks_id(), StridedShard(-1, {1, 4, 1}).blocks_id());
  for (const auto* wrong : {"SS(0,4:0)", "SS(0,-1:2)", "SS(0,1:2147483648)"}) {
    EXPECT_THROW(Placement::parse(wrong), c10::ValueError) << wrong;
  }
}

TEST(Placement, ARaggedShardHasTheLengthsOfItsMembers) {
  const auto ragged = RaggedShard(-2, {4, 1, 1});
  EXPECT_TRUE(ragged.is_shard() && ragged.is_shard(-2) && ragged.is_ragged());
  EXPECT_FALSE(ragged.is_plain_shard() || ragged.is_strided() || ragged.has_unequal_blocks());
  EXPECT_EQ(ragged.lengths(), c10::IntArrayRef({4, 1, 1}));
  EXPECT_EQ(ragged.split_factor(), 1);
  EXPECT_EQ(ragged.along(2), RaggedShard(2, {4, 1, 1}));
  EXPECT_EQ(ragged.normalized(3), RaggedShard(1, {4, 1, 1}));
  EXPECT_NE(ragged.blocks_id(), StridedShard(-2, {4, 1, 1}).blocks_id());
  EXPECT_TRUE(Shard(0).is_plain_shard());
  EXPECT_FALSE(StridedShard(0, 2).is_ragged() || StridedShard(0, 2).is_plain_shard() || Replicate().is_plain_shard());
  for (const auto* wrong : {"S(0|)", "S(0|3:)", "S(0|3:-1)", "S(0|3", "S(0|9223372036854775807:1)"}) {
    EXPECT_ANY_THROW(Placement::parse(wrong)) << wrong;
  }
}

TEST(Placement, KnowsItsKindAndArguments) {
  for (const auto& placement : {Shard(1), StridedShard(1, 4)}) {
    EXPECT_TRUE(placement.is_shard()) << placement;
    EXPECT_TRUE(placement.is_shard(1)) << placement;
    EXPECT_FALSE(placement.is_shard(0)) << placement;
    EXPECT_FALSE(placement.is_replicate()) << placement;
    EXPECT_FALSE(placement.is_partial()) << placement;
    EXPECT_EQ(placement.dim(), 1) << placement;
  }
  EXPECT_EQ(Shard(1).split_factor(), 1);
  EXPECT_EQ(StridedShard(1, 4).split_factor(), 4);
  EXPECT_TRUE(Partial(ReduceOp::Max).is_partial());
  EXPECT_FALSE(Partial(ReduceOp::Max).is_shard(0));
  EXPECT_EQ(Partial(ReduceOp::Max).reduce_op(), ReduceOp::Max);
  EXPECT_EQ(Partial(ReduceOp::Product).split_factor(), 1);
  EXPECT_FALSE(Replicate().is_shard(0));
}

TEST(Placement, ParseSkipsSpaces) {
  EXPECT_EQ(Placement::parse("  S( 1 ) "), Shard(1));
  EXPECT_EQ(Placement::parse("SS( 0 , 2 )"), StridedShard(0, 2));
  EXPECT_EQ(Placement::parse("P( max )"), Partial(ReduceOp::Max));
}

TEST(Placement, NormalizingCountsNegativeDimsFromTheEnd) {
  for (int64_t rank = 1; rank <= 4; ++rank) {
    for (int64_t dim = 0; dim < rank; ++dim) {
      EXPECT_EQ(Shard(dim - rank).normalized(rank), Shard(dim));
      EXPECT_EQ(Shard(dim).normalized(rank), Shard(dim));
      EXPECT_EQ(StridedShard(dim - rank, 3).normalized(rank), StridedShard(dim, 3));
    }
  }
}

TEST(Placement, NormalizingLeavesReplicateAndPartialAlone) {
  for (const auto& placement : {Replicate(), Partial(), Partial(ReduceOp::Min)}) {
    EXPECT_EQ(placement.normalized(0), placement);
    EXPECT_EQ(placement.normalized(3), placement);
  }
}

TEST(Placement, NormalizingADimTheTensorHasNotRaises) {
  const auto text = [](Placement placement, int64_t rank) {
    return error_text<c10::IndexError>([&] { placement.normalized(rank); });
  };
  EXPECT_EQ(
      text(Shard(2), 2),
      "[Placement] the dim of S(2) must be in [-2, 2) for a tensor of 2 dims, but got 2. "
      "Shard a dim that the tensor has.");
  EXPECT_EQ(
      text(StridedShard(-3, 4), 2),
      "[Placement] the dim of SS(-3,4) must be in [-2, 2) for a tensor of 2 dims, but got -3. "
      "Shard a dim that the tensor has.");
  EXPECT_EQ(
      text(Shard(0), 0),
      "[Placement] the dim of S(0) must be in [0, 0) for a tensor of 0 dims, but got 0. "
      "A 0-dim tensor can only be R or P.");
}

TEST(Placement, DimTooLargeForAnyTensorRaisesInsteadOfWrapping) {
  for (const auto dim : {int64_t{32768}, int64_t{65536}, int64_t{-32769}, int64_t{1} << 40}) {
    const auto expected = "[Shard] a tensor dim in [-32768, 32768) is required, but got " + std::to_string(dim) +
        ". Shard a dim that the tensor has.";
    EXPECT_EQ(error_text<c10::IndexError>([&] { Shard(dim); }), expected);
    EXPECT_EQ(error_text<c10::IndexError>([&] { StridedShard(dim, 2); }), expected);
    EXPECT_EQ(error_text<c10::IndexError>([&] { Placement::parse("S(" + std::to_string(dim) + ")"); }), expected);
  }
}

TEST(Placement, SplitFactorOutOfRangeRaises) {
  for (const auto factor : {int64_t{0}, int64_t{-2}, int64_t{1} << 31}) {
    const auto expected = "[StridedShard] split_factor must be at least 1 and below 2^31, but got " +
        std::to_string(factor) + " (dim 1). Use Shard(1) for an unstrided shard.";
    EXPECT_EQ(error_text<c10::ValueError>([&] { StridedShard(1, factor); }), expected);
    EXPECT_EQ(error_text<c10::ValueError>([&] { Placement::parse("SS(1," + std::to_string(factor) + ")"); }), expected);
  }
}

TEST(Placement, BadTextRaisesWithThePlace) {
  const std::vector<std::tuple<std::string, std::string, int>> bad = {
      {"", "R, S(dim), SS(dim,split_factor), S(dim|lengths) or P(sum|avg|max|min|product)", 1},
      {"  r", "R, S(dim), SS(dim,split_factor), S(dim|lengths) or P(sum|avg|max|min|product)", 3},
      {"S 0", "R, S(dim), SS(dim,split_factor), S(dim|lengths) or P(sum|avg|max|min|product)", 1},
      {"S(a)", "an integer", 3},
      {"S()", "an integer", 3},
      {"S(99999999999999999999)", "an integer", 3},
      {"S(0", "')'", 4},
      {"S(0,2)", "')'", 4},
      {"SS(0)", "','", 5},
      {"SS(0,)", "an integer", 6},
      {"P()", "a word of letters, digits and underscores", 3},
      {"P(sum", "')'", 6},
      {"R R", "the end of the text", 3},
      {"R2", "the end of the text", 2},
  };
  for (const auto& [text, expected, column] : bad) {
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { Placement::parse(text); }),
        c10::str(
            "[Placement::parse] expected ", expected, " at column ", column, ", but got '", text,
            "'. See docs/notation.md for the notation."));
  }
}

const std::vector<std::pair<ReduceOp, std::string>> kReduceOps = {
    {ReduceOp::Sum, "sum"}, {ReduceOp::Avg, "avg"},         {ReduceOp::Max, "max"},
    {ReduceOp::Min, "min"}, {ReduceOp::Product, "product"},
};

TEST(ReduceOp, NameParsesBack) {
  for (const auto& [op, name] : kReduceOps) {
    EXPECT_EQ(to_string(op), name);
    EXPECT_EQ(parse_reduce_op(name), op);
  }
}

TEST(ReduceOp, UnknownNameRaises) {
  const std::string expected = "[parse_reduce_op] expected one of sum avg max min product, but got 'mean'.";
  EXPECT_EQ(error_text<c10::ValueError>([] { parse_reduce_op("mean"); }), expected);
  EXPECT_EQ(error_text<c10::ValueError>([] { Placement::parse("P(mean)"); }), expected);
}

TEST(ReduceOp, OnlySumAndAvgCommuteWithAnother) {
  for (const auto& [a, a_name] : kReduceOps) {
    for (const auto& [b, b_name] : kReduceOps) {
      const bool additive = (a_name == "sum" && b_name == "avg") || (a_name == "avg" && b_name == "sum");
      EXPECT_EQ(commute(a, b), a == b || additive) << a_name << " " << b_name;
    }
  }
}

} // namespace placement_test

} // namespace weft
