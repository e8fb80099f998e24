#include "weft/graph/analysis/local_sizes.h"

#include "tests/support/error_text.h"
#include "weft/core/shard_math.h"

namespace weft::graph {

namespace local_sizes_test {
using namespace weft::testing;

TEST(LocalSizes, AreThoseOfShardMathForNumbersAndForSymbols) {
  const std::vector<Layout> layouts = {
      {Shard(0), Replicate()},
      {Replicate(), Shard(0)},
      {Shard(0), Shard(0)},
      {Shard(1), Shard(0)},
      {Partial(), Shard(1)}};
  const Layout turned({Shard(0), Shard(0)}, {1, 0});
  const Sizes symbols = {Size::symbol("s0"), Size::symbol("s1")};
  for (int64_t a = 0; a < 10; ++a) {
    for (const auto& layout : layouts) {
      for (int64_t rank = 0; rank < 6; ++rank) {
        const MeshPlace place{{2, 3}, {rank / 3, rank % 3}};
        const auto expected = local_shape_and_offset({a, 7}, layout, place.shape, place.coordinate).shape;
        const auto numbers = local_sizes({a, 7}, layout, place);
        const auto sizes = local_sizes(symbols, layout, place);
        for (size_t d = 0; d < 2; ++d) {
          EXPECT_EQ(numbers[d].number(), expected[d]);
          EXPECT_EQ(sizes[d].evaluate({{"s0", a}, {"s1", 7}}), expected[d]) << sizes[d].to_string();
        }
      }
    }
  }
  const MeshPlace place{{2, 3}, {1, 2}};
  EXPECT_EQ(
      local_size(Size::symbol("s0"), 0, turned, place).evaluate({{"s0", 11}}),
      local_shape_and_offset({11}, turned, place.shape, place.coordinate).shape[0]);
}

TEST(LocalSizes, ALocalTensorHasTheMemoryOrderOfTheGlobalOne) {
  Graph graph;
  const auto type_of = [&](Sizes strides, Layout layout) {
    auto type = contiguous_type(c10::kFloat, {4, 6});
    type.strides = std::move(strides);
    auto* value = graph.add_input("x", type);
    value->layout = std::move(layout);
    return std::get<TensorType>(local_type(*value, {{2}, {1}}));
  };
  EXPECT_EQ(type_of({6, 1}, {Shard(1)}), contiguous_type(c10::kFloat, {4, 3}));
  EXPECT_EQ(type_of({1, 4}, {Shard(0)}).strides, (Sizes{1, 2}));
  EXPECT_EQ(type_of({0, 1}, {Shard(1)}).strides, (Sizes{0, 1}));
  EXPECT_EQ(type_of({1, 9}, {Partial()}).strides, (Sizes{1, 9}));
  const auto* number = graph.add_input("n", NumberType{NumberKind::Int, "s0"});
  EXPECT_EQ(local_type(*number, {{2}, {1}}), number->type);
}

TEST(LocalSizes, ShardsTakeTheirFullSizeFirst) {
  const auto part = chunk(Size(10), 4, 3);
  EXPECT_EQ(part.begin.number(), 9);
  EXPECT_EQ(part.length.number(), 1);
  EXPECT_EQ(chunk_length(Size(10), 4).number(), 3);
  EXPECT_EQ(chunk_length(Size::symbol("s0"), 4).to_string(), "(s0 + 3)//4");
  const auto first = chunk(Size::symbol("s0"), 4, 0);
  EXPECT_EQ(first.begin.number(), 0);
  EXPECT_EQ(first.length.to_string(), "(s0 + 3)//4");
}

TEST(LocalSizes, AStridedShardOfASymbolIsRefused) {
  expect_contains(
      error_text<c10::NotImplementedError>(
          [] { local_size(Size::symbol("s0"), 0, Layout({StridedShard(0, 2)}), MeshPlace{{2}, {0}}); }),
      "[localize] the size s0 of a dim sharded as {SS(0,2)} must be a number, or a multiple of 2. Export the "
      "program with a fixed size there.");
}

TEST(LocalSizes, AQuotientIsOneWhateverTheSymbolsAre) {
  const auto text = [](const char* a, const char* b) {
    const auto result = quotient(Size::parse(a), Size::parse(b));
    return result ? result->to_string() : "none";
  };
  EXPECT_EQ(text("4*s0", "s0"), "4");
  EXPECT_EQ(text("4*s0", "2*s0"), "2");
  EXPECT_EQ(text("6*s0*s1", "3*s1"), "2*s0");
  EXPECT_EQ(text("(s0 + 1)*4", "s0 + 1"), "4");
  EXPECT_EQ(text("12", "4"), "3");
  EXPECT_EQ(text("0", "4"), "0");
  // None of these quotients is known, although their numbers could be divided and rounded.
  EXPECT_EQ(text("s0", "2"), "none");
  EXPECT_EQ(text("8*s0", "3"), "none");
  EXPECT_EQ(text("2*s0*(3*s1)", "4"), "none");
  EXPECT_EQ(text("8*(s0//2)", "5003"), "none");
  EXPECT_EQ(text("4*s0", "s0*s0"), "none");
  EXPECT_EQ(text("s0", "0"), "none");
}

TEST(LocalSizes, StridedShardsThatDivideASymbolAreComputed) {
  const Layout layout({StridedShard(0, 3), Shard(0)});
  for (int64_t rank = 0; rank < 4; ++rank) {
    const MeshPlace place{{2, 2}, {rank / 2, rank % 2}};
    const auto size = local_size(Size(3) * Size::symbol("s0"), 0, layout, place);
    for (int64_t value = 0; value < 9; ++value) {
      EXPECT_EQ(
          size.evaluate({{"s0", value}}),
          local_shape_and_offset({3 * value}, layout, place.shape, place.coordinate).shape[0])
          << size.to_string();
    }
  }
}

TEST(LocalSizes, ARankHasItsPlaceInTheMesh) {
  const auto mesh = DeviceMesh::parse("mesh(dp=2,tp=3)");
  EXPECT_EQ(place_in(mesh, 4).coordinate, (std::vector<int64_t>{1, 1}));
  expect_contains(
      error_text<c10::ValueError>([&] { place_in(mesh, 6); }),
      "[localize] a rank of mesh(dp=2,tp=3) is required, but got 6");
}

} // namespace local_sizes_test

} // namespace weft::graph
