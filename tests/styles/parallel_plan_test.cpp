#include "weft/styles/parallel_plan.h"
#include "tests/support/error_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace weft::nn {

namespace parallel_plan_test {
using namespace weft::testing;

TEST(ParallelPlan, WildcardsStayBetweenTwoDotsOfAPath) {
  EXPECT_TRUE(matches("layers.*.wq", "layers.11.wq"));
  EXPECT_FALSE(matches("layers.*", "layers.0.wq"));
  EXPECT_FALSE(matches("*.wq", "layers.0.wq"));
  EXPECT_TRUE(matches("w?", "wq"));
  EXPECT_FALSE(matches("w?", "w"));
  EXPECT_TRUE(matches("*_norm", "attention_norm"));
  EXPECT_TRUE(matches("a*b*c", "aXbYbZc"));
  EXPECT_TRUE(matches("", ""));
  EXPECT_FALSE(matches("", "a"));
}

TEST(ParallelPlan, BracketsStandForOneOfSomeLetters) {
  EXPECT_TRUE(matches("w[qkv]", "wk"));
  EXPECT_FALSE(matches("w[qkv]", "wo"));
  EXPECT_TRUE(matches("w[1-3]", "w2"));
  EXPECT_FALSE(matches("w[1-3]", "w4"));
  EXPECT_TRUE(matches("w[!o]", "wq"));
  EXPECT_FALSE(matches("w[!o]", "wo"));
  EXPECT_TRUE(matches("w[q", "w[q")); // an open bracket is a letter
}

TEST(ParallelPlan, ItsTextParsesBackInItsOrder) {
  const ParallelPlan plan = {
      {"w[qkv]", colwise({.heads = 4})}, {"a", rowwise()}, {"", prepare_input({{.to = Replicate()}})}};
  const auto back = ParallelPlan::parse(plan.to_string());
  ASSERT_EQ(back.entries().size(), 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(back.entries()[i].pattern, plan.entries()[i].pattern);
    EXPECT_EQ(back.entries()[i].style, plan.entries()[i].style);
  }
}

TEST(ParallelPlan, AFileThatIsNoPlanIsAnErrorThatNamesItAndTheEntry) {
  const auto path = std::filesystem::temp_directory_path() / ("weft_plan_" + std::to_string(getpid()) + ".json");
  const auto load = [&](const char* text) {
    std::ofstream(path) << text;
    return error_text<c10::ValueError>([&] { ParallelPlan::load(path); });
  };
  expect_contains(load("{\n  \"a\": colwise\n}"), path.string() + " must be JSON, but: ");
  expect_contains(load("{\n  \"a\": colwise\n}"), "line 2");
  EXPECT_EQ(
      load("[]"), "[ParallelPlan] " + path.string() + " must be an object of patterns and styles, but got array.");
  expect_contains(
      load(R"({"a.b": "columns"})"), "[ParallelPlan: " + path.string() + ", entry \"a.b\"] \"style\" must be");
  std::filesystem::remove(path);
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { ParallelPlan::load(path); }),
      "[ParallelPlan] a plan file is required, but " + path.string() + " cannot be read.");
}

TEST(ParallelPlan, AKeyThatStandsTwiceIsAnError) {
  const auto error_of = [](const char* text) {
    return error_text<c10::ValueError>([&] { ParallelPlan::parse(text, "plan.json"); });
  };
  EXPECT_EQ(
      error_of(R"({"up": "colwise", "down": {"style": "colwise"}, "up": "rowwise"})"),
      "[ParallelPlan: plan.json] every key is required once, but got \"up\" twice. Remove one of them.");
  EXPECT_EQ(
      error_of(R"({"up": "colwise", "down": {"style": "colwise", "heads": 2, "heads": 4}})"),
      "[ParallelPlan: plan.json, entry \"down\"] every key is required once, but got \"heads\" twice. Remove one of "
      "them.");
  EXPECT_EQ(
      ParallelPlan::parse(R"({"a": {"style": "colwise"}, "b": {"style": "colwise"}})", "plan.json").entries().size(),
      2u);
}

TEST(ParallelPlan, ErrorsOfPlacementsAndNumbersNameTheEntry) {
  const auto error_of = [](const std::string& heads) {
    return error_text<c10::ValueError>(
        [&] { ParallelPlan::parse(R"({"up": {"style": "colwise", "heads": )" + heads + "}}", "plan.json"); });
  };
  const std::string lead = "[ParallelPlan: plan.json, entry \"up\"] ";
  EXPECT_EQ(error_of("1e30"), lead + "option heads must be an integer of 64 bits, but got 1e+30.");
  EXPECT_EQ(error_of("2.5"), lead + "option heads must be an integer of 64 bits, but got 2.5.");
  EXPECT_EQ(
      error_of("18446744073709551615"),
      lead + "option heads must be an integer of 64 bits, but got 18446744073709551615.");
  EXPECT_EQ(error_of("-1"), lead + "[colwise] heads must be positive, but got -1.");
  expect_contains(
      error_text<c10::ValueError>(
          [&] { ParallelPlan::parse(R"x({"up": {"style": "colwise", "output": "Q(1)"}})x", "plan.json"); }),
      lead);
}

TEST(ParallelPlan, ATextThatNestsTooDeepIsAnError) {
  for (const char* open : {"[", R"({"a":)"}) {
    std::string text = "{\"up\": ";
    for (int i = 0; i < 50000; ++i) {
      text += open;
    }
    const auto error = error_text<c10::ValueError>([&] { ParallelPlan::parse(text, "plan.json"); });
    EXPECT_EQ(
        error.rfind("[ParallelPlan] plan.json must have at most 200 lists and objects inside of each other", 0), 0u)
        << error;
  }
}

TEST(ParallelPlan, PatternsOfManyWildcardsMatchInTime) {
  std::string stars;
  for (int i = 0; i < 40; ++i) {
    stars += "*a";
  }
  EXPECT_FALSE(matches(stars + "*b", std::string(200, 'a')));
  EXPECT_TRUE(matches(stars + "*", std::string(200, 'a')));
  EXPECT_TRUE(matches("*" + std::string(1000000, 'a'), std::string(1000001, 'a')));
  EXPECT_TRUE(matches("w[!k]*[0-9]", "wq17"));
  EXPECT_FALSE(matches("w[!k]*[0-9]", "wk17"));
  EXPECT_TRUE(matches("**", ""));
}

TEST(ParallelPlan, EveryPathGetsTheEntryThatMatchesIt) {
  const ParallelPlan plan = {{"layers.*.w[qk]", colwise()}, {"layers.*.wo", rowwise()}};
  const auto found = match(plan, {"", "layers", "layers.0.wq", "layers.1.wk", "layers.0.wo"});
  EXPECT_EQ(found[0], nullptr);
  EXPECT_EQ(found[2], &plan.entries()[0]);
  EXPECT_EQ(found[3], &plan.entries()[0]);
  EXPECT_EQ(found[4], &plan.entries()[1]);
}

TEST(ParallelPlan, APatternThatMatchesNoModuleNamesParameters) {
  const ParallelPlan plan = {{"experts.up", colwise()}, {"*", replicate()}};
  const auto found = match(plan, {"experts"}, {"experts.up", "scale"});
  EXPECT_EQ(found, (std::vector<const ParallelPlan::Entry*>{&plan.entries()[1], &plan.entries()[0], nullptr}));
}

TEST(ParallelPlan, APatternThatMatchesNothingIsAnErrorWithTheNearestNames) {
  const ParallelPlan plan = {{"layers.*.attention.w_q", colwise()}};
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { match(plan, {"layers.0.attention.wq", "layers.1.attention.wq", "norm"}); }),
      "[parallelize_module] every pattern of a plan must match a module, but \"layers.*.attention.w_q\" matches none. "
      "The "
      "nearest are: layers.*.attention.wq, norm.");
}

TEST(ParallelPlan, TwoStylesForOneModuleAreAnError) {
  EXPECT_EQ(
      error_text<c10::ValueError>([&] { match({{"w*", replicate()}, {"wo", sequence()}}, {"wq", "wo"}); }),
      "[parallelize_module] one style per module is required, but \"wo\" is matched by \"w*\" "
      "({\"style\":\"replicate\"}) and "
      "by \"wo\" ({\"dim\":1,\"style\":\"sequence\"}). Make one of the patterns narrower.");
  EXPECT_NO_THROW(match({{"w*", sequence()}, {"wo", sequence()}}, {"wq", "wo"}));
}

TEST(ParallelPlan, AnEntryWithShardIsAUnitWithOrWithoutAStyle) {
  const auto plan = ParallelPlan::parse(R"({
    "layers.*": {"shard": "dp"},
    "layers.*.up": {"style": "colwise", "shard": "dp", "reshard_after_forward": false},
    "head": "colwise",
    "": {"shard": "dp", "replicate": "pod"}
  })");
  ASSERT_EQ(plan.entries().size(), 2U);
  EXPECT_EQ(plan.entries()[0].pattern, "layers.*.up");
  EXPECT_EQ(plan.entries()[0].style, colwise());
  ASSERT_EQ(plan.units().size(), 3U);
  EXPECT_EQ(plan.units()[0].to_string(), R"({"shard":"dp"})");
  EXPECT_EQ(plan.units()[1].to_string(), R"({"shard":"dp","reshard_after_forward":false})");
  EXPECT_EQ(plan.units()[2].to_string(), R"({"shard":"dp","replicate":"pod"})");
  const auto back = ParallelPlan::parse(plan.to_string());
  ASSERT_EQ(back.entries().size(), 2U);
  EXPECT_EQ(back.entries()[0].style, colwise());
  EXPECT_EQ(back.entries()[1].pattern, "head");
  EXPECT_EQ(back.to_string(), plan.to_string());
  ASSERT_EQ(back.units().size(), 3U);
  for (const auto& unit : back.units()) {
    const auto same = [&](const ParallelPlan::Unit& other) {
      return other.pattern == unit.pattern && other.is_like(unit);
    };
    EXPECT_TRUE(std::any_of(plan.units().begin(), plan.units().end(), same));
  }
}

TEST(ParallelPlan, UnitsAreMatchedWithTheInnermostModulesFirst) {
  const auto plan =
      ParallelPlan::parse(R"({"": {"shard": "dp"}, "*.?": {"shard": "dp"}, "layers.*.up": {"shard": "dp"}})");
  std::vector<size_t> order;
  for (const auto& [number, unit] :
       match_units(plan, {"", "layers", "layers.0", "layers.0.up", "layers.1", "layers.1.up"})) {
    order.push_back(number);
  }
  EXPECT_EQ(order, (std::vector<size_t>{3, 5, 2, 4, 0}));
}

TEST(ParallelPlan, AUnitThatMeansNothingIsAnError) {
  const auto parse = [](const char* text) { return error_text<c10::ValueError>([&] { ParallelPlan::parse(text); }); };
  EXPECT_EQ(
      parse(R"({"a": {"shard": 3}})"),
      "[ParallelPlan: plan, entry \"a\"] the name of a mesh dim is required for \"shard\", but got 3.");
  EXPECT_EQ(
      parse(R"({"a": {"shard": "dp", "reshard_after_forward": "no"}})"),
      "[ParallelPlan: plan, entry \"a\"] true or false is required for \"reshard_after_forward\", but got \"no\".");
  expect_contains(parse(R"({"a": {"shard": "dp", "heads": 2}})"), "\"style\" must be one of");
  EXPECT_EQ(
      error_text<c10::ValueError>([] { match_units(ParallelPlan::parse(R"({"b": {"shard": "dp"}})"), {"a"}); }),
      "[parallelize_module] every pattern of a plan must match a module, but \"b\" matches none. The nearest are: a.");
  EXPECT_EQ(
      error_text<c10::ValueError>(
          [] { match_units(ParallelPlan::parse(R"({"a": {"shard": "dp"}, "?": {"shard": "tp"}})"), {"a"}); }),
      "[parallelize_module] a module is fully sharded once, but \"a\" is matched by \"a\" ({\"shard\":\"dp\"}) and by "
      "\"?\" "
      "({\"shard\":\"tp\"}). Make one of the patterns narrower.");
}

} // namespace parallel_plan_test

} // namespace weft::nn
