#include "weft/propagation/choose.h"

#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace choose_test {
using namespace weft::testing;

/// The strategy of a call whose operands have these specs; a spec that begins with "*" is that of a parameter.
std::optional<Strategy> choice(
    const char* op,
    const std::vector<std::string>& specs,
    const Arguments& arguments = {},
    const std::vector<StoredOutput>& stored = {}) {
  std::vector<PlacedOperand> operands;
  std::vector<Ints> shapes;
  for (const auto& text : specs) {
    const bool is_stationary = text.starts_with('*');
    operands.push_back({TensorSpec::parse(text.substr(is_stationary ? 1 : 0)), is_stationary});
    shapes.push_back(operands.back().spec->sizes().vec());
  }
  return choose(RuleCall(op, shapes, arguments).rule().value(), operands, stored);
}

/// "{S(0)} {R} -> {S(0)}"; "moves: ..." if an operand must be communicated, "nothing" if no strategy is possible.
std::string choice_text(
    const char* op,
    const std::vector<std::string>& specs,
    const Arguments& arguments = {},
    const std::vector<StoredOutput>& stored = {}) {
  const auto strategy = choice(op, specs, arguments, stored);
  if (!strategy) {
    return "nothing";
  }
  bool moves = false;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto spec = TensorSpec::parse(specs[i].substr(specs[i].starts_with('*') ? 1 : 0));
    for (const auto& step : plan(spec, spec->with(strategy->inputs[i])).steps) {
      moves = moves || communicates(step.kind);
    }
  }
  std::string text = moves ? "moves: " : "";
  for (const auto& layout : strategy->inputs) {
    text += layout.to_string() + " ";
  }
  text += "->";
  for (const auto& layout : strategy->outputs) {
    text += " " + layout.to_string();
  }
  return text;
}

const std::vector<StoredOutput> kInFirst = {{.output = 0, .operand = 0}};

TEST(Choose, OperandsThatFitStayWhereTheyAre) {
  EXPECT_EQ(
      choice_text("aten::mm", {"f32[8,4] @ mesh(tp=2) {S(0)}", "f32[4,6] @ mesh(tp=2) {R}"}), "{S(0)} {R} -> {S(0)}");
  EXPECT_EQ(choice_text("aten::relu", {"f32[8,4] @ mesh(tp=2) {S(1)}"}), "{S(1)} -> {S(1)}");
  EXPECT_EQ(choice_text("aten::relu", {"f32[8,4] @ mesh(tp=2) {R}"}), "{R} -> {R}");
}

TEST(Choose, AShardedDimOfOneElementStaysSharded) {
  EXPECT_EQ(choice_text("aten::clone", {"f32[1,4] @ mesh(tp=2) {S(0)}"}), "{S(0)} -> {S(0)}");
  EXPECT_EQ(choice_text("aten::relu", {"f32[1,4] @ mesh(tp=2) {R}"}), "{R} -> {R}");
}

TEST(Choose, EveryMeshDimHasARoleOfItsOwn) {
  EXPECT_EQ(
      choice_text("aten::mm", {"f32[8,4] @ mesh(dp=2,tp=2) {S(0), R}", "f32[4,6] @ mesh(dp=2,tp=2) {R, S(1)}"}),
      "{S(0), R} {R, S(1)} -> {S(0), S(1)}");
  EXPECT_EQ(
      choice_text("aten::mm", {"f32[8,4] @ mesh(dp=2,tp=2) {S(0), S(1)}", "f32[4,6] @ mesh(dp=2,tp=2) {R, S(0)}"}),
      "{S(0), S(1)} {R, S(0)} -> {S(0), P(sum)}");
}

TEST(Choose, ShardingAContractedDimGivesPartialSums) {
  EXPECT_EQ(
      choice_text("aten::mm", {"f32[8,4] @ mesh(tp=2) {S(1)}", "f32[4,6] @ mesh(tp=2) {S(0)}"}),
      "{S(1)} {S(0)} -> {P(sum)}");
  EXPECT_EQ(choice_text("aten::amax", {"f32[8,4] @ mesh(tp=2) {S(1)}"}, {{"dim", Ints{1}}}), "{S(1)} -> {P(max)}");
}

TEST(Choose, AReplicatedOperandIsSlicedWithoutCommunication) {
  EXPECT_EQ(
      choice_text("aten::mul.Tensor", {"f32[8,4] @ mesh(tp=2) {S(1)}", "f32[4] @ mesh(tp=2) {R}"}),
      "{S(1)} {S(0)} -> {S(1)}");
}

TEST(Choose, TheCheaperOperandMoves) {
  EXPECT_EQ(
      choice_text("aten::mm", {"f32[6400,4096] @ mesh(tp=2) {S(1)}", "f32[4096,512] @ mesh(tp=2) {S(1)}"}),
      "moves: {S(1)} {S(0)} -> {P(sum)}");
}

TEST(Choose, ASmallOperandIsGatheredRatherThanShardedByAnotherDim) {
  const auto softmax = [](const std::string& spec) { return choice_text("aten::_softmax", {spec}, {{"dim", 1}}); };
  EXPECT_EQ(softmax("f32[8,4] @ mesh(tp=2) {S(1)}"), "moves: {R} -> {R}");
  EXPECT_EQ(softmax("f32[4096,4096] @ mesh(tp=2) {S(1)}"), "moves: {S(0)} -> {S(0)}");
  EXPECT_EQ(
      choice_text("aten::mm", {"f32[64,4] @ mesh(tp=2) {S(1)}", "f32[4,6] @ mesh(tp=2) {S(1)}"}),
      "moves: {R} {S(1)} -> {S(1)}");
}

TEST(Choose, AnActivationComesToAParameter) {
  EXPECT_EQ(
      choice_text("aten::mm", {"f32[64,4] @ mesh(tp=2) {S(1)}", "*f32[4,6] @ mesh(tp=2) {S(1)}"}),
      "moves: {R} {S(1)} -> {S(1)}");
}

TEST(Choose, PartialSumsPassWhatIsLinear) {
  EXPECT_EQ(
      choice_text("aten::mm", {"f32[8,4] @ mesh(tp=2) {P(sum)}", "f32[4,6] @ mesh(tp=2) {R}"}),
      "{P(sum)} {R} -> {P(sum)}");
  EXPECT_EQ(choice_text("aten::neg", {"f32[8,4] @ mesh(tp=2) {P(avg)}"}), "{P(avg)} -> {P(avg)}");
  EXPECT_EQ(choice_text("aten::t", {"f32[8,4] @ mesh(tp=2) {P(max)}"}), "{P(max)} -> {P(max)}");
}

TEST(Choose, OnlyCopiesPassPartialValuesOfOtherOperations) {
  const auto strategy = choice("aten::deg2rad", {"f32[8,4] @ mesh(tp=2) {P(max)}"});
  EXPECT_FALSE(strategy->inputs[0].has_partial());
  EXPECT_FALSE(strategy->outputs[0].has_partial());
  EXPECT_GT(strategy->cost, 0);
}

TEST(Choose, WhatReversesTheOrderTurnsMaximaIntoMinima) {
  EXPECT_EQ(choice_text("aten::neg", {"f32[8,4] @ mesh(tp=2) {P(max)}"}), "{P(max)} -> {P(min)}");
  EXPECT_EQ(choice_text("aten::neg", {"f32[8,4] @ mesh(tp=2) {P(min)}"}), "{P(min)} -> {P(max)}");
  EXPECT_EQ(choice_text("aten::neg", {"f32[8,4] @ mesh(tp=2) {P(sum)}"}), "{P(sum)} -> {P(sum)}");
  EXPECT_FALSE(choice("aten::neg", {"f32[8,4] @ mesh(tp=2) {P(product)}"})->inputs[0].has_partial());
}

TEST(Choose, WhatIsLinearInOneOperationPassesItsPartialValuesAlone) {
  const Arguments last = {{"dim", Ints{1}}};
  EXPECT_EQ(choice_text("aten::amax", {"f32[8,4] @ mesh(tp=2) {P(max)}"}, last), "{P(max)} -> {P(max)}");
  EXPECT_FALSE(choice("aten::amax", {"f32[8,4] @ mesh(tp=2) {P(sum)}"}, last)->inputs[0].has_partial());
}

TEST(Choose, PartialSumsAreReducedBeforeWhatIsNotLinear) {
  // Dim 0 must not be sharded, so one reduce-scatter into dim 1 transfers the fewest bytes. What follows may gather the shards
  // again, which costs more than it saves for few elements.
  const auto dim = Arguments{{"dim", 0}};
  EXPECT_EQ(choice_text("aten::_softmax", {"f32[8,65536] @ mesh(tp=2) {P(sum)}"}, dim), "moves: {S(1)} -> {S(1)}");
  EXPECT_EQ(choice_text("aten::_softmax", {"f32[8,4] @ mesh(tp=2) {P(sum)}"}, dim), "moves: {R} -> {R}");
}

TEST(Choose, TheTermsOfASumArePartialTogether) {
  EXPECT_EQ(
      choice_text("aten::add.Tensor", {"f32[8,4] @ mesh(tp=2) {P(sum)}", "f32[8,4] @ mesh(tp=2) {P(sum)}"}),
      "{P(sum)} {P(sum)} -> {P(sum)}");
  const auto strategy =
      choice("aten::add.Tensor", {"f32[8,4] @ mesh(tp=2) {P(sum)}", "f32[4] @ mesh(tp=2) {R}"}).value();
  EXPECT_EQ(strategy.inputs[1], Layout::parse("{P(sum)}"));
  EXPECT_EQ(strategy.outputs[0], Layout::parse("{P(sum)}"));
}

TEST(Choose, WhatIsAddedToPartialSumsBecomesPartial) {
  const auto strategy =
      choice("aten::addmm", {"f32[6] @ mesh(tp=2) {R}", "f32[8,4] @ mesh(tp=2) {S(1)}", "f32[4,6] @ mesh(tp=2) {S(0)}"})
          .value();
  EXPECT_EQ(strategy.inputs[0], Layout::parse("{P(sum)}"));
  EXPECT_EQ(strategy.inputs[1], Layout::parse("{S(1)}"));
  EXPECT_EQ(strategy.inputs[2], Layout::parse("{S(0)}"));
  EXPECT_EQ(strategy.outputs[0], Layout::parse("{P(sum)}"));
}

TEST(Choose, AReplicatedOperandStaysReplicatedNextToAnAverage) {
  EXPECT_EQ(
      choice_text("aten::add.Tensor", {"f32[8] @ mesh(tp=2) {P(avg)}", "i64[] @ mesh(tp=2) {R}"}),
      "{P(avg)} {R} -> {P(avg)}");
  EXPECT_EQ(
      choice_text("aten::add.Tensor", {"i64[8] @ mesh(tp=2) {R}", "f32[8] @ mesh(tp=2) {P(avg)}"}),
      "{R} {P(avg)} -> {P(avg)}");
  EXPECT_EQ(
      choice_text("aten::maximum", {"f32[8] @ mesh(tp=2) {P(max)}", "f32[] @ mesh(tp=2) {R}"}),
      "{P(max)} {R} -> {P(max)}");
}

TEST(Choose, AnUnshardedFactorIsNotSharded) {
  EXPECT_EQ(choice_text("aten::_softmax", {"f32[8,4] @ mesh(tp=2) {S(1)}"}, {{"dim", 0}}), "{S(1)} -> {S(1)}");
  EXPECT_EQ(choice_text("aten::_softmax", {"f32[8,4] @ mesh(tp=2) {S(1)}"}, {{"dim", 1}}), "moves: {R} -> {R}");
}

TEST(Choose, AStoredOutputKeepsItsLayout) {
  const char* by_columns = "f32[8,4] @ mesh(tp=2) {S(1)}";
  EXPECT_EQ(
      choice_text("aten::add_.Tensor", {"f32[8,4] @ mesh(tp=2) {S(0)}", by_columns}, {}, kInFirst),
      "moves: {S(0)} {S(0)} -> {S(0)}");
  EXPECT_EQ(
      choice_text("aten::add_.Tensor", {"f32[8,4] @ mesh(tp=2) {R}", by_columns}, {}, kInFirst),
      "moves: {R} {R} -> {R}");
}

TEST(Choose, WhereAStoredOutputCannotKeepItsLayoutThereIsNothing) {
  EXPECT_EQ(choice_text("aten::relu_", {"f32[8,4] @ mesh(tp=2) {P(sum)}"}, {}, kInFirst), "nothing");
}

TEST(Choose, AMergedDimIsStridedByTheMeshDimOfItsFasterFactor) {
  const Arguments flat = {{"size", Ints{24}}};
  EXPECT_EQ(
      choice_text("aten::view", {"f32[4,6] @ mesh(dp=2,tp=2) {S(0), S(1)}"}, flat), "{S(0), S(1)} -> {S(0), SS(0,2)}");
  EXPECT_EQ(
      choice_text("aten::view", {"f32[4,6] @ mesh(dp=2,tp=2) {S(1), S(0)}"}, flat), "{S(1), S(0)} -> {SS(0,4), S(0)}");
}

TEST(Choose, ASplitDimIsShardedAlongItsSlowestFactor) {
  EXPECT_EQ(choice_text("aten::view", {"f32[24] @ mesh(tp=2) {S(0)}"}, {{"size", Ints{4, 6}}}), "{S(0)} -> {S(0)}");
  EXPECT_EQ(
      choice_text("aten::view", {"f32[24] @ mesh(tp=2) {SS(0,4)}"}, {{"size", Ints{4, 6}}}), "{SS(0,4)} -> {S(1)}");
}

TEST(Choose, AStridedShardOfASplitDimStaysOnItsSlowerDims) {
  EXPECT_EQ(
      choice_text("aten::view", {"f32[24] @ mesh(tp=3) {SS(0,4)}"}, {{"size", Ints{12, 2}}}), "{SS(0,4)} -> {SS(0,4)}");
  EXPECT_EQ(
      choice_text("aten::view", {"f32[24] @ mesh(tp=3) {SS(0,4)}"}, {{"size", Ints{2, 12}}}), "{SS(0,4)} -> {SS(1,2)}");
  EXPECT_EQ(
      choice_text("aten::view", {"f32[24,3] @ mesh(dp=3,tp=2) {SS(0,4), S(0)}"}, {{"size", Ints{12, 2, 3}}}),
      "{SS(0,4), S(0)} -> {SS(0,4), S(0)}");
}

TEST(Choose, AShardOfACommonFactorPassesAViewOfOtherDims) {
  EXPECT_EQ(choice_text("aten::view", {"f32[12,12] @ mesh(tp=6) {S(0)}"}, {{"size", Ints{18, 8}}}), "{S(0)} -> {S(0)}");
  // Shards of three rows are 36 elements, which are no rows of 8.
  EXPECT_EQ(
      choice_text("aten::view", {"f32[12,12] @ mesh(tp=4) {S(0)}"}, {{"size", Ints{18, 8}}}), "moves: {R} -> {R}");
}

TEST(Choose, AFactorOfAMergedDimIsNotShardedUnevenlyUnlessItIsTheFastest) {
  EXPECT_EQ(
      choice_text("aten::view", {"f32[4099,4096] @ mesh(tp=2) {S(0)}"}, {{"size", Ints{4099 * 4096}}}),
      "moves: {S(1)} -> {SS(0,4099)}");
  EXPECT_EQ(choice_text("aten::view", {"f32[3,5] @ mesh(tp=2) {S(1)}"}, {{"size", Ints{15}}}), "{S(1)} -> {SS(0,3)}");
}

TEST(Choose, AFactorThatMustBeFilledIsShardedIfEveryRankHoldsSome) {
  const auto pool = [](const std::string& spec) { return choice_text("aten::avg_pool2d", {spec}); };
  EXPECT_EQ(pool("f32[5,6,6] @ mesh(tp=3) {S(0)}"), "{S(0)} -> {S(0)}");
  EXPECT_EQ(pool("f32[4,6,6] @ mesh(tp=3) {S(0)}"), "moves: {R} -> {R}");
  EXPECT_EQ(pool("f32[5,6,6] @ mesh(dp=2,tp=2) {S(0), S(0)}"), "{S(0), S(0)} -> {S(0), S(0)}");
  EXPECT_EQ(pool("f32[3,6,6] @ mesh(dp=2,tp=2) {S(0), S(0)}"), "moves: {S(0), R} -> {S(0), R}");
}

TEST(Choose, AnOperandThatIsUpdatedKeepsItsLayout) {
  const auto batch_norm = [](const std::string& input, const std::string& channel) {
    const auto mesh = std::string(" @ mesh(tp=2) ");
    const auto of_channels = "f32[6]" + mesh + channel;
    return choice_text(
        "aten::native_batch_norm", {"f32[5,6,3]" + mesh + input, of_channels, of_channels, of_channels, of_channels},
        {{"training", true}});
  };
  EXPECT_EQ(batch_norm("{S(1)}", "{S(0)}"), "{S(1)} {S(0)} {S(0)} {S(0)} {S(0)} -> {S(1)} {S(0)} {S(0)}");
  EXPECT_EQ(batch_norm("{S(1)}", "{R}"), "moves: {R} {R} {R} {R} {R} -> {R} {R} {R}");
  EXPECT_EQ(batch_norm("{S(1)}", "{P(sum)}"), "nothing");
}

TEST(Choose, AnOperandOfAnyLayoutStaysWhereItIs) {
  EXPECT_EQ(
      choice_text("aten::type_as", {"f32[8,4] @ mesh(tp=2) {R}", "f32[8,6] @ mesh(tp=2) {S(1)}"}), "{R} {S(1)} -> {R}");
  EXPECT_EQ(
      choice_text("aten::type_as", {"f32[8,4] @ mesh(tp=2) {S(0)}", "f32[8,4] @ mesh(tp=2) {P(sum)}"}),
      "{S(0)} {P(sum)} -> {S(0)}");
}

// Programs with symbolic sizes are planned with primes in place of their symbols, times a multiple of the ranks if a
// symbol is known to be one.
TEST(Choose, ASymbolIsShardedUnevenlyUnlessItIsMerged) {
  EXPECT_EQ(
      choice_text("aten::reshape", {"f32[10007,16] @ mesh(tp=2) {S(0)}"}, {{"shape", Ints{10007, 4, 4}}}),
      "{S(0)} -> {S(0)}");
  EXPECT_EQ(
      choice_text("aten::reshape", {"f32[10007,20011,64] @ mesh(tp=2) {S(2)}"}, {{"shape", Ints{-1, 64}}}),
      "{S(2)} -> {S(1)}");
  EXPECT_EQ(
      choice_text("aten::reshape", {"f32[20014,20011,64] @ mesh(tp=2) {S(0)}"}, {{"shape", Ints{-1, 64}}}),
      "{S(0)} -> {S(0)}");
  EXPECT_EQ(
      choice_text("aten::reshape", {"f32[10007,40022,64] @ mesh(tp=2) {S(1)}"}, {{"shape", Ints{-1, 64}}}),
      "{S(1)} -> {SS(0,10007)}");
  EXPECT_TRUE(choice_text("aten::reshape", {"f32[10007,20011,64] @ mesh(tp=2) {S(0)}"}, {{"shape", Ints{-1, 64}}})
                  .starts_with("moves: "));
}

TEST(Choose, SizesAreNotCountedThrough) {
  // A loop over one of these sizes would not end within the test.
  const std::string mesh = " @ mesh(dp=2,tp=4) ";
  const auto batch = std::to_string(int64_t{8} * 10000019);
  const auto length = std::to_string(int64_t{8} * 10000079);
  const auto hidden = "f32[" + batch + "," + length + ",64]" + mesh;
  EXPECT_EQ(
      choice_text("aten::flatten.using_ints", {hidden + "{S(0), S(1)}"}, {{"end_dim", 1}}),
      "{S(0), S(1)} -> {S(0), SS(0,40000076)}");
  EXPECT_EQ(
      choice_text("aten::linear", {hidden + "{S(0), S(2)}", "f32[32,64]" + mesh + "{R, S(1)}"}),
      "{S(0), S(2)} {R, S(1)} -> {S(0), P(sum)}");
  EXPECT_EQ(
      choice_text("aten::layer_norm", {hidden + "{S(0), S(2)}"}, {{"normalized_shape", Ints{64}}}).substr(0, 7),
      "moves: ");
  const auto heads = "f32[" + batch + ",8," + length + ",16]" + mesh;
  EXPECT_EQ(
      choice_text(
          "aten::scaled_dot_product_attention",
          {heads + "{S(0), S(1)}", heads + "{S(0), S(1)}", heads + "{S(0), S(2)}"}, {{"is_causal", true}}),
      "moves: {S(0), S(1)} {S(0), S(1)} {S(0), S(1)} -> {S(0), S(1)}");
}

} // namespace choose_test

} // namespace weft
