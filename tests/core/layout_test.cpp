#include "weft/core/layout.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

#include <sstream>

namespace weft {

namespace layout_test {
using testing::error_text;

TEST(Layout, EarlierMeshDimsShardFirstByDefault) {
  const Layout layout({Shard(0), Replicate(), StridedShard(0, 2), Shard(1), Shard(0)});
  EXPECT_EQ(layout.ndim(), 5);
  EXPECT_EQ(layout.shard_order(0), (MeshDims{0, 2, 4}));
  EXPECT_EQ(layout.shard_order(1), MeshDims{3});
  EXPECT_EQ(layout.shard_order(2), MeshDims{});
  EXPECT_TRUE(layout.has_default_order());
  const std::vector<int64_t> positions = {0, 0, 1, 0, 2};
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    EXPECT_EQ(layout.shard_position(m), positions[m]) << m;
  }
}

TEST(Layout, PositionsStateWhichMeshDimShardsFirst) {
  const Layout layout({Shard(0), Shard(1), Shard(0), Shard(0)}, {2, 0, 0, 1});
  EXPECT_EQ(layout.shard_order(0), (MeshDims{2, 3, 0}));
  EXPECT_EQ(layout.shard_order(1), MeshDims{1});
  EXPECT_FALSE(layout.has_default_order());
}

TEST(Layout, PositionsInDefaultOrderAreTheDefault) {
  const Layout layout({Shard(0), Shard(0)}, {0, 1});
  EXPECT_EQ(layout, Layout({Shard(0), Shard(0)}));
  EXPECT_EQ(layout.hash(), Layout({Shard(0), Shard(0)}).hash());
  EXPECT_TRUE(layout.has_default_order());
}

TEST(Layout, PositionsOfMeshDimsThatShardNothingAreIgnored) {
  EXPECT_EQ(Layout({Replicate(), Partial()}, {5, -1}), Layout({Replicate(), Partial()}));
}

TEST(Layout, TextParsesBackToTheSameLayout) {
  const std::vector<std::pair<Layout, std::string>> written = {
      {Layout(), "{}"},
      {Layout({Replicate()}), "{R}"},
      {Layout({Shard(0), Replicate()}), "{S(0), R}"},
      {Layout({Partial(ReduceOp::Max), StridedShard(-1, 4)}), "{P(max), SS(-1,4)}"},
      {Layout({Shard(0), Shard(0)}), "{S(0), S(0)}"},
      {Layout({Shard(0), Shard(0)}, {1, 0}), "{S(0)[1], S(0)[0]}"},
      {Layout({Shard(0), Shard(1), StridedShard(0, 2), Partial()}, {1, 0, 0, 0}),
       "{S(0)[1], S(1), SS(0,2)[0], P(sum)}"},
      {Layout({Shard(0), Shard(1), Shard(0), Shard(1)}, {0, 1, 1, 0}), "{S(0)[0], S(1)[1], S(0)[1], S(1)[0]}"},
  };
  for (size_t i = 0; i < written.size(); ++i) {
    const auto& [layout, text] = written[i];
    EXPECT_EQ(layout.to_string(), text);
    EXPECT_EQ(Layout::parse(text), layout) << text;
    EXPECT_EQ(Layout::parse(text).hash(), layout.hash()) << text;
    std::ostringstream stream;
    stream << layout;
    EXPECT_EQ(stream.str(), text);
    for (size_t j = 0; j < written.size(); ++j) {
      EXPECT_EQ(layout == written[j].first, i == j) << text << " " << written[j].second;
      EXPECT_EQ(layout.hash() == written[j].first.hash(), i == j) << text << " " << written[j].second;
    }
  }
}

TEST(Layout, ParseSkipsSpacesAndAcceptsPositionsInDefaultOrder) {
  EXPECT_EQ(Layout::parse(" { S(0) [ 1 ] ,S(0)[0] } "), Layout({Shard(0), Shard(0)}, {1, 0}));
  EXPECT_EQ(Layout::parse("{S(0)[0], S(0)[1]}"), Layout({Shard(0), Shard(0)}));
}

TEST(Layout, PositionsThatAreNoOrderRaise) {
  const auto text = [](c10::ArrayRef<int64_t> positions) {
    return error_text<c10::ValueError>([&] { Layout({Shard(0), Shard(1), Shard(0)}, positions); });
  };
  const std::string start =
      "[Layout] the positions of the 2 mesh dims that shard tensor dim 0 must be 0 to 1, each once, but got ";
  EXPECT_EQ(text({0, 0, 0}), start + "[0, 0, 0] for {S(0), S(1), S(0)}.");
  EXPECT_EQ(text({1, 0, 2}), start + "[1, 0, 2] for {S(0), S(1), S(0)}.");
  EXPECT_EQ(text({-1, 0, 0}), start + "[-1, 0, 0] for {S(0), S(1), S(0)}.");
  EXPECT_EQ(text({256, 0, 1}), start + "[256, 0, 1] for {S(0), S(1), S(0)}.");
  EXPECT_EQ(
      text({0, 1, 1}),
      "[Layout] the positions of the 1 mesh dims that shard tensor dim 1 must be 0 to 0, each once, but got [0, 1, 1] "
      "for "
      "{S(0), S(1), S(0)}.");
  EXPECT_EQ(
      text({0, 1}),
      "[Layout] one position per mesh dim is required, but got 2 positions for 3 placements {S(0), S(1), S(0)}.");
  EXPECT_EQ(
      error_text<c10::ValueError>([] { Layout::parse("{S(0)[0], S(0)}"); }),
      "[Layout] the positions of the 2 mesh dims that shard tensor dim 0 must be 0 to 1, each once, but got [0, 0] for "
      "{S(0), S(0)}.");
}

TEST(Layout, BadTextRaisesWithThePlace) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {"", "'{' at column 1"},
      {"S(0)", "'{' at column 1"},
      {"{S(0)", "',' at column 6"},
      {"{S(0) R}", "',' at column 7"},
      {"{S(0),}", "R, S(dim), SS(dim,split_factor), S(dim|lengths) or P(sum|avg|max|min|product) at column 7"},
      {"{S(0)[]}", "an integer at column 7"},
      {"{S(0)[1}", "']' at column 8"},
      {"{R[0]}", "',' at column 3"},
      {"{R} x", "the end of the text at column 5"},
  };
  for (const auto& [text, expected] : bad) {
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { Layout::parse(text); }),
        "[Layout::parse] expected " + expected + ", but got '" + text + "'. See docs/notation.md for the notation.");
  }
}

TEST(Layout, NormalizingCountsNegativeDimsFromTheEnd) {
  EXPECT_EQ(Layout::parse("{S(-1), R, SS(-2,3)}").normalized(2), Layout::parse("{S(1), R, SS(0,3)}"));
  EXPECT_EQ(Layout::parse("{S(1), S(-1)}").normalized(2), Layout::parse("{S(1), S(1)}"));
  EXPECT_EQ(Layout::parse("{S(-1)[1], S(-1)[0]}").normalized(3), Layout::parse("{S(2)[1], S(2)[0]}"));
}

TEST(Layout, NormalizingADimTheTensorHasNotRaises) {
  EXPECT_EQ(
      error_text<c10::IndexError>([] { Layout::parse("{R, S(1)}").normalized(1); }),
      "[Placement] the dim of S(1) must be in [-1, 1) for a tensor of 1 dims, but got 1. "
      "Shard a dim that the tensor has.");
}

TEST(Layout, WithShardsLastAndClosesTheGapInTheShardOrder) {
  struct Change {
    std::string before;
    int64_t mesh_dim;
    Placement placement;
    std::string after;
  };
  const std::vector<Change> changes = {
      {"{R, R}", 0, Shard(1), "{S(1), R}"},
      {"{R, S(0)}", 0, Shard(0), "{S(0)[1], S(0)[0]}"},
      {"{S(0), R}", 1, Shard(0), "{S(0), S(0)}"},
      {"{S(0), S(0)}", 0, Replicate(), "{R, S(0)}"},
      {"{S(0), S(0)}", 0, Partial(), "{P(sum), S(0)}"},
      {"{S(0), S(0)}", 0, Shard(1), "{S(1), S(0)}"},
      {"{S(0), S(0)}", 0, StridedShard(0, 2), "{SS(0,2)[1], S(0)[0]}"},
      {"{S(0), S(0), S(0)}", 1, Replicate(), "{S(0), R, S(0)}"},
      {"{S(0)[2], S(0)[0], S(0)[1]}", 1, Replicate(), "{S(0)[1], R, S(0)[0]}"},
      {"{S(0)[1], S(0)[0], S(1)}", 2, Shard(0), "{S(0)[1], S(0)[0], S(0)[2]}"},
      {"{P(sum), S(0)}", 0, Replicate(), "{R, S(0)}"},
  };
  for (const auto& [before, mesh_dim, placement, after] : changes) {
    const auto layout = Layout::parse(before);
    EXPECT_EQ(layout.with(mesh_dim, placement), Layout::parse(after)) << before << " with " << placement;
    EXPECT_EQ(layout.to_string(), before);
  }
}

TEST(Layout, KnowsWhetherItHoldsPartialValues) {
  EXPECT_TRUE(Layout::parse("{R, P(min)}").has_partial());
  EXPECT_FALSE(Layout::parse("{R, S(0)}").has_partial());
  EXPECT_FALSE(Layout().has_partial());
}

TEST(Layout, GivesItsPlacementsByMeshDim) {
  const auto layout = Layout::parse("{S(0), P(sum)}");
  EXPECT_EQ(layout[0], Shard(0));
  EXPECT_EQ(layout[1], Partial());
  EXPECT_EQ(layout.placements().vec(), (std::vector<Placement>{Shard(0), Partial()}));
}

} // namespace layout_test

} // namespace weft
