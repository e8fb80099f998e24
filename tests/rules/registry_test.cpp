#include "weft/rules/registry.h"

#include "weft/rules/builders.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace registry_test {
using namespace weft::testing;

TEST(Registry, ANameStandsForTheInPlaceFormToo) {
  const auto& all = RuleRegistry::instance();
  ASSERT_NE(all.find("aten::add"), nullptr);
  EXPECT_EQ(all.find("aten::add_"), all.find("aten::add"));
  EXPECT_NE(all.find("aten::mul"), all.find("aten::add"));
}

TEST(Registry, OnlyAtenHasRules) {
  const auto& all = RuleRegistry::instance();
  EXPECT_EQ(all.find("prims::add"), nullptr);
  EXPECT_EQ(all.find("add"), nullptr);
  EXPECT_EQ(all.find("aten::"), nullptr);
}

TEST(Registry, AnOperatorWithoutARuleIsNotFound) {
  EXPECT_EQ(RuleRegistry::instance().find("aten::no_such_operator"), nullptr);
  EXPECT_EQ(RuleRegistry::instance().find("aten::no_such_operator_"), nullptr);
}

TEST(Registry, EveryFamilyIsThere) {
  for (const auto* name : {"aten::relu", "aten::mm", "aten::sum", "aten::view", "aten::_softmax"}) {
    EXPECT_NE(RuleRegistry::instance().find(name), nullptr) << name;
  }
}

TEST(Registry, ARuleIsAddedUnderAllItsNames) {
  RuleRegistry registry;
  EXPECT_EQ(registry.find("aten::first"), nullptr);
  registry.add({"second", "first"}, pointwise());
  EXPECT_NE(registry.find("aten::first"), nullptr);
  EXPECT_NE(registry.find("aten::second_"), nullptr);
}

TEST(Registry, NamesAreSorted) {
  RuleRegistry registry;
  registry.add({"sub", "add"}, additive());
  registry.add({"mm"}, contraction("mk,kn->mn"));
  EXPECT_EQ(registry.names(), std::vector<std::string>({"add", "mm", "sub"}));
}

TEST(Registry, ASecondRuleForAnOperatorRaises) {
  RuleRegistry registry;
  registry.add({"add"}, additive());
  expect_contains(error_text([&] { registry.add({"add"}, pointwise()); }), "aten::add has two rules");
}

} // namespace registry_test

} // namespace weft
