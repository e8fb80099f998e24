#include "weft/graph/propose/layer_groups.h"

#include "weft/graph/ir/parse.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace layer_groups_test {
/// "up(heads 2, parts 3)+gate -> down" for every group, with its obstacle.
std::vector<std::string> groups_of(const char* text, const std::set<std::string>& excluded = {}) {
  const auto program = parse_program(text);
  ProgramModules modules(program);
  const auto layers = find_weighted_layers(program, modules);
  std::vector<std::string> result;
  for (const auto& group : find_layer_groups(program, layers, excluded)) {
    std::vector<std::string> sources;
    for (const auto& source : group.sources) {
      sources.push_back(
          source.layer->module + (source.heads ? c10::str(" heads ", *source.heads) : "") +
          (source.has_moments ? " with moments" : "") + (source.parts > 1 ? c10::str(" parts ", source.parts) : "") +
          (source.part_sizes.empty() ? "" : c10::str(" parts ", c10::Join(":", source.part_sizes))));
    }
    auto described = c10::Join(" + ", sources);
    for (const auto* partner : group.partners) {
      described += " -> " + partner->module;
    }
    described += group.output ? c10::str(" -> output ", *group.output) : "";
    described += group.obstacle.empty() ? "" : ": " + group.obstacle;
    result.push_back(described);
  }
  return result;
}

using Groups = std::vector<std::string>;

TEST(LayerGroups, AGatedFeedForwardIsOneGroup) {
  const auto* text = R"(program
    input %a: f32[8,4] = parameter "w1.weight"
    input %b: f32[8,4] = parameter "w3.weight"
    input %c: f32[4,8] = parameter "w2.weight"
    input %x: f32[3,4] = user
      %p: f32[3,8] = aten::linear(%x, %a)
      %s: f32[3,8] = aten::silu(%p)
      %q: f32[3,8] = aten::linear(%x, %b)
      %m: f32[3,8] = aten::mul.Tensor(%s, %q)
      %d: f32[3,4] = aten::linear(%m, %c)
      %y: f32[3,4] = aten::add.Tensor(%x, %d)
    output %y = user)";
  EXPECT_EQ(groups_of(text), (Groups{"w1 + w3 -> w2"}));
  // If one of them must not be sharded, neither is the other; the layer after them then starts its own group.
  EXPECT_EQ(groups_of(text, {"w1", "w3"}), (Groups{"w2 -> output 0"}));
}

TEST(LayerGroups, HeadsArePartsOfFeaturesThatAViewSplits) {
  const auto* text = R"(program
    symbol s0 = 5 in [2, 64]
    input %w: f32[36,12] = parameter "qkv.weight"
    input %o: f32[12,12] = parameter "out.weight"
    input %x: f32[2,s0,12] = user
      %size: int(s0) = aten::sym_size.int(%x, 1)
      %l: f32[2,s0,36] = aten::linear(%x, %w)
      %v: f32[2,s0,3,4,3] = aten::view(%l, [2, %size, 3, 4, 3])
      %t: f32[3,2,4,s0,3] = aten::permute(%v, [2, 0, 3, 1, 4])
      [%q: f32[2,4,s0,3], %k: f32[2,4,s0,3], %u: f32[2,4,s0,3]] = aten::unbind.int(%t)
      %z: f32[2,4,s0,3] = aten::scaled_dot_product_attention(%q, %k, %u)
      %b: f32[2,s0,4,3] = aten::permute(%z, [0, 2, 1, 3])
      %f: f32[2,s0,12] = aten::reshape(%b, [2, %size, 12])
      %y: f32[2,s0,12] = aten::linear(%f, %o)
    output %y = user)";
  EXPECT_EQ(groups_of(text), (Groups{"qkv heads 4 parts 3 -> out"}));
}

/// One layer for 4 heads of queries and 2 of keys and of values, which slices or a split take from its output.
std::string grouped_attention(const std::string& parts) {
  return R"(program
    input %w: f32[24,12] = parameter "qkv.weight"
    input %o: f32[12,12] = parameter "out.weight"
    input %x: f32[2,5,12] = user
      %l: f32[2,5,24] = aten::linear(%x, %w)
)" + parts +
      R"(
      %qh: f32[2,5,4,3] = aten::view(%q, [2, 5, 4, 3])
      %kh: f32[2,5,2,3] = aten::view(%k, [2, 5, 2, 3])
      %uh: f32[2,5,2,3] = aten::view(%u, [2, 5, 2, 3])
      %qt: f32[2,4,5,3] = aten::transpose.int(%qh, 1, 2)
      %kt: f32[2,2,5,3] = aten::transpose.int(%kh, 1, 2)
      %ut: f32[2,2,5,3] = aten::transpose.int(%uh, 1, 2)
      %z: f32[2,4,5,3] = aten::scaled_dot_product_attention(%qt, %kt, %ut, None, 0.0, True, enable_gqa=True)
      %b: f32[2,5,4,3] = aten::transpose.int(%z, 1, 2)
      %f: f32[2,5,12] = aten::reshape(%b, [2, 5, 12])
      %y: f32[2,5,12] = aten::linear(%f, %o)
    output %y = user)";
}

TEST(LayerGroups, SlicesOfALayersOutputArePartsOfDifferentSizes) {
  const auto* slices = R"(      %q: f32[2,5,12] = aten::slice.Tensor(%l, -1, 0, 12)
      %k: f32[2,5,6] = aten::slice.Tensor(%l, 2, 12, 18)
      %u: f32[2,5,6] = aten::slice.Tensor(%l, 2, -6))";
  EXPECT_EQ(groups_of(grouped_attention(slices).c_str()), (Groups{"qkv heads 4 parts 4:2:2 -> out"}));
  const auto* split =
      R"(      [%q: f32[2,5,12], %k: f32[2,5,6], %u: f32[2,5,6]] = aten::split_with_sizes(%l, [12, 6, 6], -1))";
  EXPECT_EQ(groups_of(grouped_attention(split).c_str()), (Groups{"qkv heads 4 parts 4:2:2 -> out"}));
  const auto* overlapping = R"(      %q: f32[2,5,12] = aten::slice.Tensor(%l, -1, 0, 12)
      %k: f32[2,5,6] = aten::slice.Tensor(%l, 2, 10, 16)
      %u: f32[2,5,6] = aten::slice.Tensor(%l, 2, -6))";
  EXPECT_EQ(
      groups_of(grouped_attention(overlapping).c_str())[0],
      "qkv -> out: some of its features are used as parts, and some not");
}

TEST(LayerGroups, WhatNeedsAllFeaturesIsTold) {
  const auto* norm = R"(program
    input %a: f32[8,4] = parameter "up.weight"
    input %b: f32[4,8] = parameter "down.weight"
    input %x: f32[3,4] = user
      %p: f32[3,8] = aten::linear(%x, %a)
      %n: f32[3,8] = aten::softmax.int(%p, -1)
      %d: f32[3,4] = aten::linear(%n, %b)
    output %d = user)";
  EXPECT_EQ(groups_of(norm), (Groups{"up: aten::softmax.int needs all of its features", "down -> output 0"}));
  const auto* mixed = R"(program
    input %a: f32[8,4] = parameter "up.weight"
    input %x: f32[3,4] = user
      %p: f32[3,8] = aten::linear(%x, %a)
      %v: f32[3,2,4] = aten::view(%p, [3, 2, 4])
      %s: f32[3,4] = aten::sum.dim_IntList(%v, [1])
    output %s = user)";
  EXPECT_EQ(groups_of(mixed), (Groups{"up: aten::sum.dim_IntList mixes its features"}));
}

TEST(LayerGroups, MomentsOfAllFeaturesStopNone) {
  const auto* text = R"(program
    input %a: f32[8,4] = parameter "up.weight"
    input %s: f32[8] = parameter "norm.weight"
    input %c: f32[4,8] = parameter "down.weight"
    input %x: f32[3,4] = user
      %p: f32[3,8] = aten::linear(%x, %a)
      %q: f32[3,8] = aten::pow.Tensor_Scalar(%p, 2)
      %m: f32[3,1] = aten::mean.dim(%q, [-1], True)
      %r: f32[3,1] = aten::rsqrt(%m)
      %n: f32[3,8] = aten::mul.Tensor(%p, %r)
      %w: f32[3,8] = aten::mul.Tensor(%s, %n)
      %d: f32[3,4] = aten::linear(%w, %c)
    output %d = user)";
  EXPECT_EQ(groups_of(text), (Groups{"up with moments -> down"}));
}

TEST(LayerGroups, MomentsOfASumWithOtherFeaturesLeaveTheResidualStreamReplicated) {
  const auto* text = R"(program
    input %a: f32[4,4] = parameter "out.weight"
    input %b: f32[8,4] = parameter "up.weight"
    input %c: f32[4,8] = parameter "down.weight"
    input %x: f32[3,4] = user
      %h: f32[3,4] = aten::cos(%x)
      %o: f32[3,4] = aten::linear(%h, %a)
      %s: f32[3,4] = aten::add.Tensor(%h, %o)
      %q: f32[3,4] = aten::pow.Tensor_Scalar(%s, 2)
      %m: f32[3,1] = aten::mean.dim(%q, [-1], True)
      %n: f32[3,4] = aten::mul.Tensor(%s, %m)
      %u: f32[3,8] = aten::linear(%n, %b)
      %d: f32[3,4] = aten::linear(%u, %c)
      %y: f32[3,4] = aten::add.Tensor(%s, %d)
    output %y = user)";
  EXPECT_EQ(
      groups_of(text),
      (Groups{
          "out with moments + down -> up -> output 0: its features are added to others, and aten::mean.dim reads the "
          "sums"}));
  EXPECT_EQ(groups_of(text, {"out"}), (Groups{"up -> down"}));
}

TEST(LayerGroups, AnOperandOfWhichTheDtypeAloneIsReadStopsNoFeatures) {
  const auto* text = R"(program
    input %a: bf16[8,4] = parameter "up.weight"
    input %c: bf16[4,8] = parameter "down.weight"
    input %x: bf16[3,4] = user
      %p: bf16[3,8] = aten::linear(%x, %a)
      %f: f32[3,8] = aten::to.dtype(%p, f32)
      %s: f32[3,8] = aten::silu(%f)
      %q: bf16[3,8] = aten::type_as(%s, %p)
      %d: bf16[3,4] = aten::linear(%q, %c)
      %y: bf16[3,4] = aten::add.Tensor(%x, %d)
    output %y = user)";
  EXPECT_EQ(groups_of(text), (Groups{"up -> down"}));
}

} // namespace layer_groups_test

} // namespace weft::graph
