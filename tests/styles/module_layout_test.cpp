#include "weft/styles/module_layout.h"
#include "tests/support/error_text.h"

#include <gtest/gtest.h>

namespace weft::nn {

namespace module_layout_test {
using namespace weft::testing;

const int kFirst = 0;
const int kSecond = 0;
const int kThird = 0;
const int kFourth = 0;

ModuleInfo linear(const std::string& path, int64_t outputs, int64_t inputs, const void* weight = nullptr) {
  static std::vector<std::unique_ptr<int>> identities;
  identities.push_back(std::make_unique<int>());
  identities.push_back(std::make_unique<int>());
  return {
      path,
      ModuleKind::Linear,
      {{"weight", {outputs, inputs}, weight != nullptr ? weight : identities.end()[-2].get()},
       {"bias", {outputs}, identities.back().get()}}};
}

ModuleInfo embedding(const std::string& path, const void* weight) {
  return {path, ModuleKind::Embedding, {{"weight", {16, 8}, weight}}};
}

using Placements = std::vector<std::optional<Placement>>;

ModuleLayout laid_out(const ModuleInfo& module, const Style& style, const char* mesh = "mesh(tp=2)") {
  static ParallelPlan plan;
  plan = {{module.path, style}};
  return lay_out(plan, {module}, DeviceMesh::parse(mesh), 0)[0];
}

TEST(ModuleLayout, StylesShardParametersByTheKindOfTheModule) {
  EXPECT_EQ(laid_out(linear("a", 8, 4), colwise()).parameters, (Placements{Shard(0), Shard(0)}));
  EXPECT_EQ(laid_out(linear("a", 8, 4), rowwise()).parameters, (Placements{Shard(1), Replicate()}));
  EXPECT_EQ(laid_out(embedding("a", &kFirst), colwise()).parameters, (Placements{Shard(1)}));
  EXPECT_EQ(laid_out(embedding("a", &kFirst), rowwise()).parameters, (Placements{Shard(0)}));
  for (const auto& style : {sequence(), replicate(), prepare_input({{.to = Replicate()}})}) {
    EXPECT_EQ(laid_out(linear("a", 8, 4), style).parameters, (Placements{Replicate(), Replicate()}));
  }
}

TEST(ModuleLayout, ATransposedLinearIsShardedByTheOtherDim) {
  const ModuleInfo module = {
      "a", ModuleKind::TransposedLinear, {{"weight", {4, 12}, &kFirst}, {"bias", {12}, &kSecond}}};
  const auto columns = laid_out(module, colwise({.parts = 3}));
  EXPECT_EQ(columns.parameters, (Placements{StridedShard(1, 3), StridedShard(0, 3)}));
  const auto rows = laid_out(module, rowwise());
  EXPECT_EQ(rows.parameters, (Placements{Shard(0), Replicate()}));
  EXPECT_EQ(rows.inputs, (std::vector<Crossing>{{.from = Shard(-1), .to = Shard(-1)}}));
}

TEST(ModuleLayout, ParametersNamedByThemselvesAreStacksOfWeights) {
  const ModuleInfo module = {
      "experts",
      ModuleKind::Other,
      {{"up", {4, 8, 6}, &kFirst}, {"down", {4, 6, 8}, &kSecond}, {"bias", {6}, &kThird}, {"scale", {}, &kFourth}}};
  const auto placements = [&](const ParallelPlan& plan) {
    return lay_out(plan, {module}, DeviceMesh::parse("mesh(tp=2)"), 0)[0].parameters;
  };
  EXPECT_EQ(
      placements({{"experts.up", colwise({.parts = 2})}, {"experts.down", rowwise()}, {"experts.bias", rowwise()}}),
      (Placements{StridedShard(1, 2), Shard(2), Replicate(), Replicate()}));
  EXPECT_EQ(
      placements({{"experts", prepare_output({{.to = Replicate()}})}, {"experts.up", shard_parameter()}}),
      (Placements{Shard(0), Replicate(), Replicate(), Replicate()}));
  EXPECT_EQ(
      placements(
          {{"experts.up", rowwise({.parts = 3})}, {"experts.[bs]*", colwise()}, {"experts.down", shard_parameter(-1)}}),
      (Placements{StridedShard(2, 3), Shard(2), Shard(0), Replicate()}));
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { placements({{"experts.down", colwise({.parts = 4})}}); }),
      "[parallelize_module] plan entry \"experts.down\" for parameter \"experts.down\": dim 1 must be divisible by 4 "
      "parts, but is 6.");
  expect_contains(
      error_text<c10::ValueError>([&] { placements({{"experts.up", sequence()}}); }),
      "the style of a parameter must be colwise or rowwise without heads, shard or replicate, but got");
  expect_contains(
      error_text<c10::ValueError>([&] { placements({{"experts", shard_parameter()}}); }),
      "the style shard is for parameters. Name those of the module.");
}

TEST(ModuleLayout, InputsGoWhereTheWeightsWantThem) {
  EXPECT_EQ(
      laid_out(linear("a", 8, 4), colwise({.input = Shard(1)})).inputs,
      (std::vector<Crossing>{{.from = Shard(1), .to = Replicate()}}));
  EXPECT_EQ(
      laid_out(linear("a", 8, 4), rowwise()).inputs, (std::vector<Crossing>{{.from = Shard(-1), .to = Shard(-1)}}));
  EXPECT_EQ(
      laid_out(embedding("a", &kFirst), rowwise()).inputs,
      (std::vector<Crossing>{{.from = Replicate(), .to = Replicate()}}));
}

TEST(ModuleLayout, LayersJoinedInOneWeightAreEachSharded) {
  const auto layout = laid_out(linear("a", 12, 4), colwise({.parts = 3}));
  EXPECT_EQ(layout.parameters, (Placements{StridedShard(0, 3), StridedShard(0, 3)}));
  EXPECT_EQ(layout.outputs, (std::vector<Crossing>{{.to = StridedShard(-1, 3)}}));
}

TEST(ModuleLayout, JoinedInputsOfARowwiseLayerAreEachSharded) {
  const auto layout = laid_out(linear("a", 4, 12), rowwise({.parts = 2}));
  EXPECT_EQ(layout.parameters, (Placements{StridedShard(1, 2), Replicate()}));
  EXPECT_EQ(layout.inputs, (std::vector<Crossing>{{.from = StridedShard(-1, 2), .to = StridedShard(-1, 2)}}));
}

TEST(ModuleLayout, FewerHeadsThanRanksAreOnEveryRank) {
  const auto layout = laid_out(linear("a", 8, 4), colwise({.heads = 2}), "mesh(tp=4)");
  EXPECT_EQ(layout.parameters, (Placements{Replicate(), Replicate()}));
  EXPECT_EQ(layout.outputs, (std::vector<Crossing>{{.to = Replicate()}}));
}

TEST(ModuleLayout, HeadsThatDoNotDivideAreAnErrorThatNamesTheEntry) {
  const ParallelPlan plan = {{"layers.*.wq", colwise({.heads = 6})}};
  EXPECT_EQ(
      error_text<c10::ValueError>(
          [&] { lay_out(plan, {linear("layers.0.wq", 12, 4)}, DeviceMesh::parse("mesh(tp=4)"), 0); }),
      "[parallelize_module] plan entry \"layers.*.wq\" for module \"layers.0.wq\": the number of heads must be "
      "divisible by "
      "the 4 ranks, but got 6. Use a mesh whose size divides it.");
  expect_contains(
      error_text<c10::ValueError>([&] { laid_out(linear("a", 10, 4), colwise({.heads = 4})); }),
      "dim 0 of the weight must be divisible by 4, heads times parts, but is 10.");
  expect_contains(
      error_text<c10::ValueError>([&] { laid_out(linear("a", 8, 8), rowwise({.heads = 1})); }),
      "plan entry \"a\" for module \"a\": the number of heads must be divisible by the 2 ranks, but got 1.");
}

TEST(ModuleLayout, OnlyLinearAndEmbeddingModulesAreSharded) {
  expect_contains(
      error_text<c10::ValueError>([&] { laid_out({"norm", ModuleKind::Other, {}}, colwise()); }),
      "plan entry \"norm\" for module \"norm\": the style colwise is for linear and embedding modules.");
}

TEST(ModuleLayout, WhatThePlanDoesNotNameIsReplicated) {
  const ParallelPlan plan = {{"a", colwise()}};
  const auto layouts = lay_out(plan, {linear("a", 8, 4), linear("b", 8, 4)}, DeviceMesh::parse("mesh(tp=2)"), 0);
  EXPECT_EQ(layouts[1].entry, nullptr);
  EXPECT_EQ(layouts[1].parameters, (Placements{Replicate(), Replicate()}));
}

TEST(ModuleLayout, WhereThePlanGivesOutPlainTensorsTheRestStaysPlain) {
  const ParallelPlan plan = {{"a", colwise({.local_output = true})}};
  const std::vector<ModuleInfo> modules = {linear("a", 8, 4), linear("b", 8, 4)};
  const auto layouts = lay_out(plan, modules, DeviceMesh::parse("mesh(tp=2)"), 0);
  EXPECT_EQ(layouts[1].parameters, (Placements{std::nullopt, std::nullopt}));
  expect_contains(
      error_text<c10::ValueError>([&] { lay_out(plan, modules, DeviceMesh::parse("mesh(dp=2,tp=2)"), 1); }),
      "but got local inputs or outputs on mesh(dp=2,tp=2)");
}

TEST(ModuleLayout, TiedParametersHaveOnePlacementOrAreAnError) {
  const auto mesh = DeviceMesh::parse("mesh(tp=2)");
  const std::vector<ModuleInfo> modules = {embedding("tokens", &kFirst), linear("output", 16, 8, &kFirst)};
  const ParallelPlan alike = {{"tokens", rowwise()}, {"output", colwise()}};
  const auto layouts = lay_out(alike, modules, mesh, 0);
  EXPECT_EQ(layouts[0].parameters[0], Shard(0));
  EXPECT_EQ(layouts[1].parameters[0], Shard(0));
  const ParallelPlan one = {{"output", colwise()}};
  const auto by_output = lay_out(one, modules, mesh, 0);
  EXPECT_EQ(by_output[0].parameters[0], Shard(0));
  EXPECT_EQ(by_output[0].outputs, (std::vector<Crossing>{{.to = Replicate()}}));
  const ParallelPlan by_parameter = {{"output.weight", colwise()}};
  const auto without_boundary = lay_out(by_parameter, modules, mesh, 0);
  EXPECT_EQ(without_boundary[0].parameters[0], Shard(0));
  EXPECT_TRUE(without_boundary[0].outputs.empty());
  const ParallelPlan by_tokens = {{"tokens", rowwise({.output = Shard(1)})}};
  EXPECT_EQ(lay_out(by_tokens, modules, mesh, 0)[1].inputs, (std::vector<Crossing>{{Replicate(), Replicate()}}));
  EXPECT_EQ(lay_out(by_tokens, modules, mesh, 0)[1].outputs, (std::vector<Crossing>{{.to = Shard(-1)}}));
  expect_contains(
      error_text<c10::ValueError>([&] { lay_out({{"tokens", colwise()}, {"output", colwise()}}, modules, mesh, 0); }),
      "parameter \"weight\" is tied to one of module \"tokens\", which entry \"tokens\" lays out as S(1), but got "
      "S(0).");
}

TEST(ModuleLayout, ThePlanIsForTheNamedMeshDimOrTpOrTheOnlyOne) {
  EXPECT_EQ(plan_mesh_dim(DeviceMesh::parse("mesh(dp=2,tp=2)"), std::nullopt), 1);
  EXPECT_EQ(plan_mesh_dim(DeviceMesh::parse("mesh(dp=2,tp=2)"), "dp"), 0);
  EXPECT_EQ(plan_mesh_dim(DeviceMesh::parse("mesh(x=2)"), std::nullopt), 0);
  EXPECT_EQ(
      error_text<c10::ValueError>([] { plan_mesh_dim(DeviceMesh::parse("mesh(x=2,y=2)"), std::nullopt); }),
      "[parallelize_module] the mesh dim that the plan is for is required, but got none for mesh(x=2,y=2). Name it "
      "with "
      "mesh_dim, or call it tp.");
}

} // namespace module_layout_test

} // namespace weft::nn
