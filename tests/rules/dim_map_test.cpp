#include "weft/rules/dim_map.h"

#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace dim_map_test {
using namespace weft::testing;

/// The map as the text of a rule; the sizes of its factors follow: "([(a b)])->([a,b]) 3 4".
std::string map_text(const Ints& from, const Ints& to) {
  Rule rule;
  auto map = map_dims(rule, from, to);
  rule.inputs = {map.from};
  rule.outputs = {map.to};
  auto text = rule.to_string();
  for (const auto size : rule.sizes) {
    text += " " + std::to_string(size);
  }
  return text;
}

TEST(DimMap, EqualDimsAreEqualFactors) {
  EXPECT_EQ(map_text({5, 4}, {5, 4}), "([a,b])->([a,b]) 5 4");
}

TEST(DimMap, ASplitDimConsistsOfItsFactors) {
  EXPECT_EQ(map_text({12, 8}, {3, 4, 8}), "([(a b),c])->([a,b,c]) 3 4 8");
}

TEST(DimMap, MergedDimsAreFactors) {
  EXPECT_EQ(map_text({2, 3, 5}, {30}), "([a,b,c])->([(a b c)]) 2 3 5");
}

TEST(DimMap, DimsThatIntersectHaveACommonFactor) {
  EXPECT_EQ(map_text({4, 6}, {8, 3}), "([a,(b c)])->([(a b),c]) 4 2 3");
}

TEST(DimMap, DimsOfOneElementHaveNoFactor) {
  EXPECT_EQ(map_text({1, 4}, {4}), "([-,a])->([a]) 4");
  EXPECT_EQ(map_text({4}, {4, 1}), "([a])->([a,-]) 4");
  EXPECT_EQ(map_text({2, 1, 3}, {6}), "([a,-,b])->([(a b)]) 2 3");
  EXPECT_EQ(map_text({5, 1, 4}, {5, 4}), "([a,-,b])->([a,b]) 5 4");
}

TEST(DimMap, ADimOfOneElementThatStaysOneKeepsItsShard) {
  EXPECT_EQ(map_text({1, 8}, {1, 2, 4}), "([a,(b c)])->([a,b,c]) 1 2 4");
  EXPECT_EQ(map_text({6, 1}, {2, 3, 1}), "([(a b),c])->([a,b,c]) 2 3 1");
  EXPECT_EQ(map_text({1}, {1}), "([a])->([a]) 1");
}

TEST(DimMap, ASingleElementHasNoDimToShard) {
  EXPECT_EQ(map_text({}, {1, 1}), "([])->([-,-])");
  EXPECT_EQ(map_text({1}, {}), "([-])->([])");
}

TEST(DimMap, TheSlowestCommonFactorOfDimsThatIntersectMayBeSharded) {
  EXPECT_EQ(map_text({12, 8}, {16, 6}), "([(a b),-])->([(a c),-]) unsharded={b,c} 4 3 4");
  EXPECT_EQ(map_text({24, 3}, {6, 4, 3}), "([(a b),c])->([a,b,c]) 6 4 3");
  EXPECT_EQ(map_text({24, 3}, {6, 3, 4}), "([(a b),-])->([a,-,-]) unsharded={b} 6 4");
}

TEST(DimMap, DimsWithoutACommonFactorCannotBeSharded) {
  // The group of dims that cannot be sharded ends where the products of the sizes are equal again.
  EXPECT_EQ(map_text({2, 3, 5}, {3, 2, 5}), "([-,-,a])->([-,-,a]) 5");
}

TEST(DimMap, ATensorWithoutElementsIsNotShardedIfItsShapeChanges) {
  EXPECT_EQ(map_text({0, 4}, {4, 0}), "([-,-])->([-,-])");
  EXPECT_EQ(map_text({0}, {0, 3}), "([-])->([-,-])");
}

TEST(DimMap, FactorsAreAddedToThoseOfTheRule) {
  Rule rule;
  rule.add_factor(7);
  const auto map = map_dims(rule, {6}, {2, 3});
  EXPECT_EQ(map.from, Rule::Dims({{1, 2}}));
  EXPECT_EQ(map.to, Rule::Dims({{1}, {2}}));
}

} // namespace dim_map_test

} // namespace weft
