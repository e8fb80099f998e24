#include "tests/support/rule_text.h"

#include <gtest/gtest.h>

namespace weft {

namespace recurrent_test {
using namespace weft::testing;

const std::vector<Ints> kGru = {{5, 4, 3}, {1, 4, 2}, {6, 3}, {6, 2}};

TEST(Recurrent, SamplesPass) {
  EXPECT_EQ(rule_text("aten::gru.input", kGru), "([-,a,-],[-,a,-],[-,-],[-,-])->([-,a,-],[-,a,-]) filled={a}");
}

TEST(Recurrent, SamplesMayComeFirstInTheData) {
  EXPECT_EQ(
      mapping_text("aten::rnn_tanh.input", {{4, 5, 3}, {1, 4, 2}, {2, 3}, {2, 2}}, {{"batch_first", true}}),
      "([a,-,-],[-,a,-],[-,-],[-,-])->([a,-,-],[-,a,-])");
}

TEST(Recurrent, AnLstmHasTwoStates) {
  EXPECT_EQ(
      mapping_text("aten::lstm.input", {{5, 4, 3}, {1, 4, 2}, {1, 4, 2}, {8, 3}, {8, 2}}),
      "([-,a,-],[-,a,-],[-,a,-],[-,-],[-,-])->([-,a,-],[-,a,-],[-,a,-])");
}

TEST(Recurrent, WithDropoutOrWithoutSamplesThereIsNoRule) {
  EXPECT_EQ(rule_text("aten::gru.input", kGru, {{"dropout", 0.1}, {"train", true}}), "none");
  EXPECT_NE(rule_text("aten::gru.input", kGru, {{"dropout", 0.1}, {"train", false}}), "none");
  EXPECT_EQ(rule_text("aten::gru.input", {{5, 3}, {1, 2}, {6, 3}, {6, 2}}), "none");
}

} // namespace recurrent_test

} // namespace weft
