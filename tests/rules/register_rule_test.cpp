#include "weft/rules/register_rule.h"

#include "tests/support/error_text.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

namespace weft {

namespace register_rule_test {
using namespace weft::testing;

const c10::OperatorName kTril("aten::tril", "");

TEST(RegisterRule, ARuleIsFoundUntilItIsRemoved) {
  EXPECT_EQ(find_registered_rule(kTril), nullptr);
  EXPECT_FALSE(register_rule("aten::tril", {"([a,b])->([a,b]) unsharded={a,b}"}));
  const auto* first = find_registered_rule(kTril);
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(first->is_registered);
  EXPECT_EQ(find_registered_rule({"aten::tril", "out"}), nullptr);
  EXPECT_TRUE(register_rule("aten::tril", [](const OpCall&) -> std::optional<Rule> { return std::nullopt; }));
  EXPECT_NE(find_registered_rule(kTril), first);
  EXPECT_TRUE(unregister_rule("aten::tril"));
  EXPECT_FALSE(unregister_rule("aten::tril"));
  EXPECT_EQ(find_registered_rule(kTril), nullptr);
}

TEST(RegisterRule, ObserversHearOfEveryChange) {
  static int changes = 0;
  on_rule_change([](const c10::OperatorName& op) { changes += op == kTril ? 1 : 0; });
  register_rule("aten::tril", {"([a,b])->([a,b]) unsharded={a,b}"});
  unregister_rule("aten::tril");
  unregister_rule("aten::tril");
  EXPECT_EQ(changes, 2);
}

TEST(RegisterRule, UnknownOperatorsAndWrongTextsRaise) {
  expect_contains(
      error_text([] { register_rule("mylib::none", {"([a])->([a])"}); }),
      "[register_sharding] the name of a known operator is required, but got 'mylib::none'");
  expect_contains(error_text([] { register_rule("aten::tril", {"([a]->"}); }), "expected ')' at column 5");
  expect_contains(
      error_text([] { register_rule("aten::tril", std::vector<std::string>()); }), "a rule is required for aten::tril");
  EXPECT_EQ(find_registered_rule(kTril), nullptr);
}

} // namespace register_rule_test

} // namespace weft
