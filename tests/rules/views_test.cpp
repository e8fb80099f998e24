#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace views_test {
using namespace weft::testing;

TEST(Views, AViewSplitsAndMergesDims) {
  EXPECT_EQ(
      rule_text("aten::view", {{12, 8}}, {{"size", Ints{3, 4, 8}}}), "([(a b),c])->([a,b,c]) linear*={0} size=[a,b,c]");
  EXPECT_EQ(mapping_text("aten::view", {{2, 3, 4}}, {{"size", Ints{6, 4}}}), "([a,b,c])->([(a b),c])");
  EXPECT_EQ(mapping_text("aten::_unsafe_view", {{6}}, {{"size", Ints{2, 3}}}), "([(a b)])->([a,b])");
}

TEST(Views, ASizeThatIsLeftOpenIsFilledIn) {
  const RuleCall view("aten::view", {{12, 8}}, {{"size", Ints{3, -1, 8}}});
  EXPECT_EQ(view.rule()->size_arguments.at(0).sizes, Ints({3, 4, 8}));
  EXPECT_EQ(mapping_text("aten::view", {{2, 3}}, {{"size", Ints{-1}}}), "([a,b])->([(a b)])");
  const RuleCall expand("aten::expand", {{4, 1}}, {{"size", Ints{2, -1, 3}}});
  EXPECT_EQ(expand.rule()->size_arguments.at(0).sizes, Ints({2, 4, 3}));
}

TEST(Views, AnotherDtypeOfTheSameSizePassesAllDims) {
  const auto as = [](at::ScalarType dtype) {
    return rule_text("aten::view.dtype", {{5, 4}}, {{"dtype", static_cast<int64_t>(dtype)}});
  };
  EXPECT_EQ(as(at::kInt), "([a,b])->([a,b])");
  EXPECT_EQ(as(at::kShort), "([a,b])->([a,-]) unsharded={b}");
}

TEST(Views, AComplexNumberIsAPairOfRealOnes) {
  EXPECT_EQ(rule_text("aten::view_as_real", {{5, 4}}), "([a,b])->([a,b,-]) linear={0}");
  EXPECT_EQ(rule_text("aten::view_as_complex", {{5, 4, 2}}), "([a,b,c])->([a,b]) unsharded={c} linear={0}");
}

TEST(Views, TransposedDimsChangePlaces) {
  EXPECT_EQ(rule_text("aten::t", {{5, 4}}), "([a,b])->([b,a]) linear*={0}");
  EXPECT_EQ(rule_text("aten::t", {{5}}), "([a])->([a]) linear*={0}");
  EXPECT_EQ(
      rule_text("aten::transpose.int", {{5, 4, 3}}, {{"dim0", 0}, {"dim1", -1}}), "([a,b,c])->([c,b,a]) linear*={0}");
  EXPECT_EQ(rule_text("aten::permute", {{2, 3, 4}}, {{"dims", Ints{2, 0, -2}}}), "([a,b,c])->([c,a,b]) linear*={0}");
  EXPECT_EQ(rule_text("aten::permute", {{}}, {{"dims", Ints{}}}), "([])->([]) linear*={0}");
}

TEST(Views, ANewDimCannotBeSharded) {
  EXPECT_EQ(rule_text("aten::unsqueeze", {{5, 4}}, {{"dim", -1}}), "([a,b])->([a,b,-]) linear*={0}");
  EXPECT_EQ(rule_text("aten::unsqueeze", {{5, 4}}, {{"dim", 0}}), "([a,b])->([-,a,b]) linear*={0}");
  EXPECT_EQ(rule_text("aten::unsqueeze", {{}}, {{"dim", 0}}), "([])->([-]) linear*={0}");
  EXPECT_EQ(rule_text("aten::expand", {{4}}, {{"size", Ints{3, -1}}}), "([a])->([-,a]) linear*={0} size=[-,a]");
}

TEST(Views, OnlyDimsOfOneElementAreSqueezed) {
  EXPECT_EQ(rule_text("aten::squeeze.dim", {{1, 1, 4}}, {{"dim", -2}}), "([a,b,c])->([a,c]) linear*={0}");
  EXPECT_EQ(
      rule_text("aten::squeeze.dims", {{5, 1, 4}}, {{"dim", Ints{1, 2}}}), "([a,b,c])->([a,c]) linear*={0} dim=[-]");
  EXPECT_EQ(rule_text("aten::squeeze.dims", {{5, 1}}, {{"dim", Ints{}}}), "([a,b])->([a,b]) linear*={0} dim=[]");
}

TEST(Views, ADimThatIsNotSqueezedIsNotNamedLocally) {
  const RuleCall squeeze("aten::squeeze.dims", {{5, 1, 4, 1}}, {{"dim", Ints{0, 1, -1}}});
  EXPECT_EQ(squeeze.rule()->size_arguments.at(0).sizes, Ints({1, 3}));
}

TEST(Views, ADimThatIsNotSqueezedButCannotBeLeftOutIsNotSharded) {
  EXPECT_EQ(rule_text("aten::squeeze.dim", {{5, 4}}, {{"dim", 0}}), "([a,b])->([a,b]) unsharded={a} linear*={0}");
  EXPECT_EQ(rule_text("aten::squeeze", {{5, 1, 4}}), "([a,b,c])->([a,c]) unsharded={a,c} linear*={0}");
}

TEST(Views, WhatChangesAShapeInPlaceHasNoRule) {
  EXPECT_EQ(rule_text("aten::t_", {{5, 4}}), "none");
  EXPECT_EQ(rule_text("aten::transpose_", {{5, 4}}, {{"dim0", 0}, {"dim1", 1}}), "none");
  EXPECT_EQ(rule_text("aten::squeeze_", {{5, 1}}), "none");
  EXPECT_EQ(rule_text("aten::unsqueeze_", {{5, 1}}, {{"dim", 0}}), "none");
}

TEST(Views, AnExpandedDimCannotBeSharded) {
  EXPECT_EQ(mapping_text("aten::expand", {{1, 4}}, {{"size", Ints{3, 4}}}), "([a,b])->([-,b])");
}

TEST(Views, TheIndexedDimIsNotSharded) {
  EXPECT_EQ(
      rule_text("aten::select.int", {{5, 4}}, {{"dim", 0}, {"index", 2}}), "([a,b])->([b]) unsharded={a} linear*={0}");
  EXPECT_EQ(
      rule_text("aten::slice.Tensor", {{5, 4}}, {{"dim", -1}, {"start", 1}, {"end", 3}}),
      "([a,b])->([a,-]) unsharded={b} linear*={0}");
  EXPECT_EQ(
      rule_text("aten::diagonal", {{5, 4, 3}}, {{"dim1", 0}, {"dim2", -1}}),
      "([a,b,c])->([b,-]) unsharded={a,c} linear*={0}");
  EXPECT_EQ(
      rule_text("aten::unfold", {{5, 4}}, {{"dimension", 0}, {"size", 2}, {"step", 1}}),
      "([a,b])->([-,b,-]) unsharded={a} linear*={0}");
}

TEST(Views, ASliceOfAllPassesTheDim) {
  const auto sliced = [](const Arguments& arguments) { return rule_text("aten::slice.Tensor", {{5, 4}}, arguments); };
  EXPECT_EQ(sliced({{"dim", 1}}), "([a,b])->([a,b]) linear*={0}");
  EXPECT_EQ(sliced({{"dim", 1}, {"start", -9}, {"end", 4}}), "([a,b])->([a,b]) linear*={0}");
  EXPECT_EQ(sliced({{"dim", 1}, {"step", 2}}), "([a,b])->([a,-]) unsharded={b} linear*={0}");
  EXPECT_EQ(sliced({{"dim", 1}, {"end", -1}}), "([a,b])->([a,-]) unsharded={b} linear*={0}");
}

TEST(Views, NothingIsPickedFromASingleNumber) {
  EXPECT_EQ(rule_text("aten::select.int", {{}}, {{"dim", 0}, {"index", 0}}), "none");
  EXPECT_EQ(rule_text("aten::slice.Tensor", {{}}), "none");
  EXPECT_EQ(rule_text("aten::unbind.int", {{}}), "none");
}

TEST(Views, EveryTensorOfAnUnbindHasTheOtherDims) {
  EXPECT_EQ(rule_text("aten::unbind.int", {{2, 4}}), "([a,b])->([b],[b]) unsharded={a} linear*={0}");
}

TEST(Views, AGradientIsPutBackWhereItCameFrom) {
  EXPECT_EQ(
      rule_text(
          "aten::slice_backward", {{5, 2}},
          {{"input_sizes", Ints{5, 4}}, {"dim", 1}, {"start", 1}, {"end", 3}, {"step", 1}}),
      "([a,b])->([a,-]) unsharded={b} linear*={0} input_sizes=[a,-]");
  EXPECT_EQ(
      rule_text(
          "aten::slice_backward", {{5, 4}},
          {{"input_sizes", Ints{5, 4}}, {"dim", 1}, {"start", 0}, {"end", 9}, {"step", 1}}),
      "([a,b])->([a,b]) linear*={0} input_sizes=[a,b]");
  EXPECT_EQ(
      rule_text("aten::select_backward", {{5}}, {{"input_sizes", Ints{5, 4}}, {"dim", -1}, {"index", 1}}),
      "([a])->([a,-]) linear*={0} input_sizes=[a,-]");
  EXPECT_EQ(
      rule_text(
          "aten::diagonal_backward", {{5, 3}},
          {{"input_sizes", Ints{4, 5, 3}}, {"offset", 0}, {"dim1", 0}, {"dim2", 2}}),
      "([a,b])->([-,a,-]) unsharded={b} linear*={0} input_sizes=[-,a,-]");
}

TEST(Views, GradientsOfOverlappingWindowsAreAdded) {
  EXPECT_EQ(
      rule_text(
          "aten::unfold_backward", {{5, 3, 2}}, {{"input_sizes", Ints{5, 4}}, {"dim", 1}, {"size", 2}, {"step", 1}}),
      "([a,b,c])->([a,-]) unsharded={b,c} linear={0} input_sizes=[a,-]");
}

TEST(Views, AReshapeIsAViewWhoseArgumentIsAShape) {
  EXPECT_EQ(
      rule_text("aten::reshape", {{12, 8}}, {{"shape", Ints{3, -1, 8}}}),
      "([(a b),c])->([a,b,c]) linear*={0} shape=[a,b,c]");
  EXPECT_EQ(
      RuleCall("aten::reshape", {{12, 8}}, {{"shape", Ints{3, -1, 8}}}).rule()->size_arguments[0].sizes,
      Ints({3, 4, 8}));
}

TEST(Views, FlattenedDimsAreMerged) {
  const auto flat = [](const Ints& shape, const Arguments& dims) {
    return rule_text("aten::flatten.using_ints", {shape}, dims);
  };
  EXPECT_EQ(flat({2, 3, 4}, {}), "([a,b,c])->([(a b c)]) linear*={0}");
  EXPECT_EQ(flat({2, 3, 4}, {{"start_dim", 1}}), "([a,b,c])->([a,(b c)]) linear*={0}");
  EXPECT_EQ(flat({2, 3, 4}, {{"start_dim", 0}, {"end_dim", -2}}), "([a,b,c])->([(a b),c]) linear*={0}");
  EXPECT_EQ(flat({}, {}), "([])->([-]) linear*={0}");
  EXPECT_EQ(rule_text("aten::ravel", {{2, 3}}), "([a,b])->([(a b)]) linear*={0}");
}

TEST(Views, AnUnflattenedDimStatesItsSizes) {
  const RuleCall call("aten::unflatten.int", {{5, 12}}, {{"dim", -1}, {"sizes", Ints{-1, 4}}});
  EXPECT_EQ(call.rule()->to_string(), "([a,(b c)])->([a,b,c]) linear*={0} sizes=[b,c]");
  EXPECT_EQ(call.rule()->size_arguments[0].sizes, Ints({3, 4}));
}

TEST(Views, AShapeOfAnotherTensorIsShardedAsTheResult) {
  EXPECT_EQ(rule_text("aten::view_as", {{12}, {3, 4}}), "([(a b)],[a,b])->([a,b]) linear*={0} unread={1}");
  EXPECT_EQ(rule_text("aten::expand_as", {{5, 1}, {5, 4}}), "([a,-],[a,b])->([a,b]) linear*={0} unread={1}");
  EXPECT_EQ(rule_text("aten::expand_as", {{5, 1}, {5}}), "none");
}

TEST(Views, DimsAreMovedByManyNames) {
  EXPECT_EQ(mapping_text("aten::swapaxes", {{2, 3, 4}}, {{"axis0", 0}, {"axis1", 2}}), "([a,b,c])->([c,b,a])");
  EXPECT_EQ(mapping_text("aten::swapdims", {{2, 3, 4}}, {{"dim0", 0}, {"dim1", 1}}), "([a,b,c])->([b,a,c])");
  EXPECT_EQ(
      mapping_text("aten::movedim.int", {{2, 3, 4}}, {{"source", 0}, {"destination", 2}}), "([a,b,c])->([b,c,a])");
  EXPECT_EQ(
      mapping_text("aten::movedim.intlist", {{2, 3, 4}}, {{"source", Ints{2, 0}}, {"destination", Ints{0, -1}}}),
      "([a,b,c])->([c,b,a])");
  EXPECT_EQ(mapping_text("aten::mT", {{2, 3, 4}}), "([a,b,c])->([a,c,b])");
  EXPECT_EQ(mapping_text("aten::numpy_T", {{2, 3, 4}}), "([a,b,c])->([c,b,a])");
  EXPECT_EQ(rule_text("aten::swapaxes_", {{2, 3}}, {{"axis0", 0}, {"axis1", 1}}), "none");
}

TEST(Views, TheStartOfANarrowMustBeKnown) {
  EXPECT_EQ(
      rule_text("aten::narrow", {{5, 4}}, {{"dim", 0}, {"start", 1}, {"length", 2}}),
      "([a,b])->([-,b]) unsharded={a} linear*={0}");
  EXPECT_EQ(rule_text("aten::narrow.Tensor", {{5, 4}, {}}, {{"dim", 0}, {"length", 2}}), "none");
}

// Programs with symbolic sizes are planned with primes in place of their symbols.
TEST(Views, LargePrimesAreFactorsOfTheirOwn) {
  constexpr int64_t kBatch = 10007;
  constexpr int64_t kLength = 20011;
  const auto reshaped = [](const Ints& from, const Ints& to) {
    const RuleCall call("aten::reshape", {from}, {{"shape", to}});
    auto text = call.rule()->to_string();
    text.resize(text.find(" linear"));
    return text + c10::str(" ", c10::IntArrayRef(call.rule()->sizes));
  };
  EXPECT_EQ(reshaped({kBatch, 16}, {kBatch, 4, 4}), c10::str("([a,(b c)])->([a,b,c]) [", kBatch, ", 4, 4]"));
  EXPECT_EQ(
      reshaped({kBatch, kLength, 64}, {kBatch * kLength, 64}),
      c10::str("([a,b,c])->([(a b),c]) [", kBatch, ", ", kLength, ", 64]"));
  EXPECT_EQ(
      reshaped({kBatch, kLength, 64}, {-1, 64}), c10::str("([a,b,c])->([(a b),c]) [", kBatch, ", ", kLength, ", 64]"));
  EXPECT_EQ(
      reshaped({kBatch * kLength, 64}, {kBatch, -1, 4, 16}),
      c10::str("([(a b),(c d)])->([a,b,c,d]) [", kBatch, ", ", kLength, ", 4, 16]"));
  EXPECT_EQ(
      reshaped({kBatch, 8, kLength, 64}, {kBatch * 8, kLength, 64}),
      c10::str("([a,b,c,d])->([(a b),c,d]) [", kBatch, ", 8, ", kLength, ", 64]"));
  EXPECT_EQ(
      reshaped({kBatch, kLength, 3, 8, 4}, {kBatch, kLength, 96}),
      c10::str("([a,b,c,d,e])->([a,b,(c d e)]) [", kBatch, ", ", kLength, ", 3, 8, 4]"));
}

TEST(Views, DimsOfOtherPrimesHaveNothingInCommon) {
  EXPECT_EQ(mapping_text("aten::reshape", {{10007, 64}}, {{"shape", Ints{64, 10007}}}), "([-,-])->([-,-])");
}

} // namespace views_test

} // namespace weft
