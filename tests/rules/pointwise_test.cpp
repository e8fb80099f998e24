#include "tests/support/rule_text.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/version.h>

#include <algorithm>

namespace weft {

namespace pointwise_test {
using namespace weft::testing;

const auto kLong = static_cast<int64_t>(at::kLong);
const auto kDouble = static_cast<int64_t>(at::kDouble);

TEST(Pointwise, SumsAreAddedTermByTerm) {
  EXPECT_EQ(rule_text("aten::add.Tensor", {{5, 4}, {4}}), "([a,b],[b])->([a,b]) linear={0,1} increasing={0}");
  EXPECT_EQ(rule_text("aten::sub.Tensor", {{5, 4}, {5, 4}}), "([a,b],[a,b])->([a,b]) linear={0,1} increasing={0}");
  EXPECT_EQ(rule_text("aten::rsub.Tensor", {{5}, {5}}), "([a],[a])->([a]) linear={0,1}");
  EXPECT_EQ(rule_text("aten::add_.Tensor", {{5}, {5}}), "([a],[a])->([a]) linear={0,1} increasing={0}");
}

TEST(Pointwise, ANumberIsAddedToEveryTermOfAnAverageOrMaximum) {
  EXPECT_EQ(rule_text("aten::add.Scalar", {{5}}, {{"other", 2}}), "([a])->([a]) linear(avg)={0} increasing={0}");
  EXPECT_EQ(rule_text("aten::rsub.Scalar", {{5}}, {{"other", 2}}), "([a])->([a]) linear(avg)={0}");
}

TEST(Pointwise, AProductIsLinearInEachFactor) {
  EXPECT_EQ(rule_text("aten::mul.Tensor", {{5, 4}, {5, 1}}), "([a,b],[a,-])->([a,b]) linear={0}{1}");
  EXPECT_EQ(rule_text("aten::mul.Scalar", {{5}}, {{"other", 2}}), "([a])->([a]) linear={0}");
}

TEST(Pointwise, AQuotientIsLinearInTheDividendAlone) {
  EXPECT_EQ(rule_text("aten::div.Tensor", {{5}, {5}}), "([a],[a])->([a]) linear={0}");
  EXPECT_EQ(rule_text("aten::div.Tensor_mode", {{5}, {5}}, {{"rounding_mode", "floor"}}), "([a],[a])->([a])");
  EXPECT_EQ(rule_text("aten::neg", {{5}}), "([a])->([a]) linear={0} decreasing={0}");
}

TEST(Pointwise, WhatIsAddedToAProductIsPartialWithOneFactor) {
  EXPECT_EQ(rule_text("aten::addcmul", {{5, 4}, {5, 4}, {4}}), "([a,b],[a,b],[b])->([a,b]) linear={0,1}{0,2}");
  EXPECT_EQ(rule_text("aten::addcdiv", {{5}, {5}, {5}}), "([a],[a],[a])->([a]) linear={0,1}");
  EXPECT_EQ(rule_text("aten::lerp.Tensor", {{5}, {5}, {}}), "([a],[a],[])->([a]) linear={0,1}");
  EXPECT_EQ(rule_text("aten::lerp.Scalar", {{5}, {5}}, {{"weight", 0.5}}), "([a],[a])->([a]) linear={0,1}");
}

TEST(Pointwise, ACopyIsLinearInAnyOperation) {
  EXPECT_EQ(rule_text("aten::clone", {{5, 4}}), "([a,b])->([a,b]) linear*={0}");
  EXPECT_EQ(rule_text("aten::detach", {{}}), "([])->([]) linear*={0}");
  EXPECT_EQ(rule_text("aten::zero", {{5}}), "([a])->([a]) linear*={0}");
}

TEST(Pointwise, ACastIsLinearIfTermsAreCastAsTheirSumIs) {
  EXPECT_EQ(rule_text("aten::_to_copy", {{5}}), "([a])->([a]) linear*={0}");
  EXPECT_EQ(rule_text("aten::_to_copy", {{5}}, {{"dtype", kDouble}}), "([a])->([a]) linear*={0}");
  EXPECT_EQ(rule_text("aten::_to_copy", {{5}}, {{"dtype", kLong}}), "([a])->([a])");
}

TEST(Pointwise, WhatIsAssignedToIsNotRead) {
  EXPECT_EQ(rule_text("aten::copy", {{5, 4}, {4}}), "([a,b],[b])->([a,b]) linear*={0,1} unread={0}");
  EXPECT_EQ(rule_text("aten::fill.Tensor", {{5}, {}}), "([a],[])->([a]) linear*={0,1} unread={0}");
  EXPECT_EQ(rule_text("aten::fill.Scalar", {{5}}, {{"value", 1}}), "([a])->([a]) unread={0}");
}

TEST(Pointwise, WhatIsPickedFromIsPartialTogether) {
  EXPECT_EQ(rule_text("aten::where.self", {{5, 1}, {4}, {}}), "([a,-],[b],[])->([a,b]) linear*={1,2}");
  EXPECT_EQ(rule_text("aten::masked_fill.Tensor", {{5, 4}, {5, 1}, {}}), "([a,b],[a,-],[])->([a,b]) linear*={0,2}");
  EXPECT_EQ(rule_text("aten::masked_fill.Scalar", {{5}, {5}}, {{"value", 1}}), "([a],[a])->([a])");
}

TEST(Pointwise, TheLargerOfMaximaIsAMaximum) {
  EXPECT_EQ(rule_text("aten::maximum", {{5}, {5}}), "([a],[a])->([a]) linear(max)={0,1}");
  EXPECT_EQ(rule_text("aten::minimum", {{5}, {5}}), "([a],[a])->([a]) linear(min)={0,1}");
}

TEST(Pointwise, AFunctionOfValuesIsNotLinear) {
  EXPECT_EQ(rule_text("aten::relu", {{5, 4}}), "([a,b])->([a,b])");
  EXPECT_EQ(rule_text("aten::gelu", {{5}}), "([a])->([a])");
  EXPECT_EQ(rule_text("aten::pow.Tensor_Scalar", {{5}}, {{"exponent", 2}}), "([a])->([a])");
  EXPECT_EQ(rule_text("aten::eq.Tensor", {{5, 1}, {4}}), "([a,-],[b])->([a,b])");
  EXPECT_EQ(rule_text("aten::__lshift__.Tensor", {{5}, {5}}), "([a],[a])->([a])");
}

TEST(Pointwise, OneTensorMayGiveTwo) {
  EXPECT_EQ(rule_text("aten::frexp.Tensor", {{5, 4}}), "([a,b])->([a,b],[a,b])");
}

TEST(Pointwise, ABackwardFormIsLinearInTheGradient) {
  EXPECT_EQ(rule_text("aten::gelu_backward", {{5}, {5}}), "([a],[a])->([a]) linear={0}");
  EXPECT_EQ(
      rule_text("aten::threshold_backward", {{5, 4}, {5, 4}}, {{"threshold", 0}}), "([a,b],[a,b])->([a,b]) linear={0}");
  EXPECT_EQ(
      rule_text("aten::_prelu_kernel_backward", {{5, 4}, {5, 4}, {1, 4}}),
      "([a,b],[a,b],[-,b])->([a,b],[a,b]) linear={0}");
}

TEST(Pointwise, ABufferThatADeviceDoesNotKeepStaysAsItIs) {
  EXPECT_EQ(
      rule_text("aten::log_sigmoid_backward", {{5, 4}, {5, 4}, {5, 4}}), "([a,b],[a,b],[a,b])->([a,b]) linear={0}");
  EXPECT_EQ(rule_text("aten::log_sigmoid_backward", {{5, 4}, {5, 4}, {0}}), "([a,b],[a,b],[-])->([a,b]) linear={0}");
}

TEST(Pointwise, EveryOperatorThatATenCallsPointwiseHasARule) {
  // Excludes an operator that returns no tensor, and those of random numbers, which belong to another family.
  const std::vector<std::string> others = {"aten::equal", "aten::native_dropout_backward"};
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const auto& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasSchema() || !name.name.starts_with("aten::") || !op->hasTag(at::Tag::pointwise) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) ||
        std::find(others.begin(), others.end(), name.name) != others.end()) {
      continue;
    }
    EXPECT_NE(RuleRegistry::instance().find(name.name), nullptr) << name;
  }
}

TEST(Pointwise, EveryRuleIsOfAnOperatorThatThereIs) {
  auto names = RuleRegistry::instance().names();
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    names.erase(std::remove(names.begin(), names.end(), name.name.substr(name.name.find("::") + 2)), names.end());
  }
  // An older torch lacks operators that have a rule already.
  if (TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 13) {
    EXPECT_EQ(names, std::vector<std::string>());
  }
}

TEST(Pointwise, OnlyTheDtypeOfAnotherTensorMatters) {
  EXPECT_EQ(rule_text("aten::type_as", {{5, 4}, {3}}), "([a,b],[-])->([a,b]) linear*={0} any={1}");
  EXPECT_EQ(rule_text("aten::to.other", {{5, 4}, {5, 4}}), "([a,b],[-,-])->([a,b]) linear*={0} any={1}");
  EXPECT_EQ(rule_text("aten::to.dtype", {{5}}, {{"dtype", kDouble}}), "([a])->([a]) linear*={0}");
  EXPECT_EQ(rule_text("aten::to.dtype", {{5}}, {{"dtype", kLong}}), "([a])->([a])");
}

TEST(Pointwise, WhatDropsNothingCopies) {
  EXPECT_EQ(rule_text("aten::dropout", {{5}}, {{"p", 0.5}, {"train", false}}), "([a])->([a]) linear*={0}");
  EXPECT_EQ(rule_text("aten::feature_dropout", {{5}}, {{"p", 0.0}, {"train", true}}), "([a])->([a]) linear*={0}");
  EXPECT_EQ(rule_text("aten::alpha_dropout", {{5}}, {{"p", 0.5}, {"train", true}}), "none");
  EXPECT_EQ(rule_text("aten::rrelu", {{5}}, {{"training", true}}), "none");
}

TEST(Pointwise, ANumberThatIsPickedIsNoTerm) {
  EXPECT_EQ(rule_text("aten::where.self", {{5, 1}, {5, 4}, {4}}), "([a,-],[a,b],[b])->([a,b]) linear*={1,2}");
  EXPECT_EQ(rule_text("aten::where.ScalarOther", {{5, 1}, {5, 4}}, {{"other", 1}}), "([a,-],[a,b])->([a,b])");
  EXPECT_EQ(rule_text("aten::where.Scalar", {{5}}, {{"self", 1}, {"other", 2}}), "([a])->([a])");
  EXPECT_EQ(rule_text("aten::where", {{5}}), "none");
}

TEST(Pointwise, ASlopePerChannelIsShardedAsTheChannels) {
  EXPECT_EQ(rule_text("aten::prelu", {{5, 4, 2}, {4}}), "([a,b,c],[b])->([a,b,c])");
  EXPECT_EQ(rule_text("aten::prelu", {{5, 4, 2}, {1}}), "([a,b,c],[-])->([a,b,c])");
}

TEST(Pointwise, TensorsAreBroadcastEachByItself) {
  EXPECT_EQ(rule_text("aten::broadcast_tensors", {{5, 1}, {4}}), "([a,-],[b])->([a,b],[a,b]) linear*={0,1}");
}

} // namespace pointwise_test

} // namespace weft
