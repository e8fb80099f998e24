#include "weft/propagation/check_rule.h"

#include "tests/support/error_text.h"
#include "weft/rules/register_rule.h"

#include <ATen/ATen.h>

namespace weft {

namespace check_rule_test {
using namespace weft::testing;

/// "S(0) -> S(0)" for a strategy that is right, with its problem for another.
std::vector<std::string> checked(const char* name, const std::vector<c10::IValue>& arguments, int64_t ranks = 2) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  std::vector<std::string> texts;
  for (const auto& [text, problem] : check_rule(op, arguments, ranks)) {
    texts.push_back(problem.empty() ? text : text + ": " + problem);
  }
  return texts;
}

at::Tensor numbers(at::IntArrayRef sizes) {
  return at::arange(1, 1 + c10::multiply_integers(sizes), at::kFloat).reshape(sizes).remainder(7);
}

TEST(CheckRule, TriesEveryStrategyOfWeftsOwnRules) {
  EXPECT_EQ(
      checked("aten::mm", {numbers({5, 4}), numbers({4, 3})}, 3),
      (std::vector<std::string>{
          "S(0) R -> S(0)", "S(1) S(0) -> P(sum)", "R S(1) -> S(1)", "P(sum) R -> P(sum)", "P(avg) R -> P(avg)",
          "R P(sum) -> P(sum)", "R P(avg) -> P(avg)"}));
  const auto view = checked("aten::view", {numbers({4, 6}), c10::IValue(std::vector<int64_t>{4, 2, 3})});
  EXPECT_EQ(view[0], "S(0) -> S(0)");
  EXPECT_EQ(view[1], "S(1) -> S(1)");
}

TEST(CheckRule, FindsWhatIsWrong) {
  register_rule("aten::tril", {"([a,b])->([a,b])"});
  const auto texts = checked("aten::tril", {numbers({4, 4}), 0});
  unregister_rule("aten::tril");
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[0], "S(0) -> S(0): output 0 of rank 1 must be 3 at [0, 1], but got 0");
  EXPECT_EQ(texts[1], "S(1) -> S(1): output 0 of rank 1 must be 0 at [0, 0], but got 3");
}

TEST(CheckRule, FindsResultsOfAnotherShapeAndErrors) {
  register_rule("aten::mm", {"([a,b],[b,c])->([a,c]) sum={b}", "([-,-],[-,-])->([-,-])"});
  EXPECT_EQ(checked("aten::mm", {numbers({4, 2}), numbers({2, 2})}).size(), 3U);
  register_rule("aten::mm", {"([a,-],[-,-])->([-,a])"});
  expect_contains(
      checked("aten::mm", {numbers({4, 2}), numbers({2, 4})})[0], "output 0 of rank 0 must have the shape [4, 2], but");
  register_rule("aten::mm", {"([a,b],[c,d])->([a,d]) sum={b} unsharded={c}"});
  expect_contains(checked("aten::mm", {numbers({4, 2}), numbers({2, 4})})[1], "S(1) R -> P(sum): rank 0 raises: ");
  unregister_rule("aten::mm");
}

TEST(CheckRule, NeedsARuleAndRanks) {
  expect_contains(
      error_text([] { checked("aten::put", {numbers({4}), at::zeros({1}, at::kLong), numbers({1}), false}); }),
      "[check_rule] an operator with a rule is required, but got aten::put");
  expect_contains(
      error_text([] { checked("aten::relu", {numbers({4})}, 1); }), "two ranks or more are required, but got 1");
}

} // namespace check_rule_test

} // namespace weft
