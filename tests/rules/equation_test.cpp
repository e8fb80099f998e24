#include "weft/rules/equation.h"

#include <gtest/gtest.h>

namespace weft {

namespace equation_test {
std::string text_of(std::string_view equation) {
  const auto parsed = parse_equation(equation);
  if (!parsed) {
    return "none";
  }
  std::string text;
  for (const auto& input : parsed->inputs) {
    text += (text.empty() ? "" : "|") + (input.empty() ? "-" : input);
  }
  return text + ">" + parsed->output;
}

bool is_contraction(std::string_view equation) {
  return parse_equation(equation).value().is_contraction();
}

TEST(Equation, HasTheLettersOfEveryOperandAndOfTheOutput) {
  EXPECT_EQ(text_of("bmk,bkn->bmn"), "bmk|bkn>bmn");
  EXPECT_EQ(text_of("ij->ji"), "ij>ji");
  EXPECT_EQ(text_of("i,i->"), "i|i>");
  EXPECT_EQ(text_of(",ij->ij"), "-|ij>ij");
  EXPECT_EQ(text_of("aB,Bc->ac"), "aB|Bc>ac");
}

TEST(Equation, BlanksDoNotCount) {
  EXPECT_EQ(text_of(" b m k , b k n -> b m n "), "bmk|bkn>bmn");
}

TEST(Equation, WithoutAnArrowTheOutputHasTheLettersThatOccurOnce) {
  EXPECT_EQ(text_of("mk,kn"), "mk|kn>mn");
  EXPECT_EQ(text_of("ba"), "ba>ab");
  EXPECT_EQ(text_of("ii"), "ii>");
  EXPECT_EQ(text_of("bA,bC"), "bA|bC>AC");
}

TEST(Equation, AnEllipsisAndWhatIsNoLetterAreNoEquation) {
  EXPECT_EQ(text_of("...ij,jk->...ik"), "none");
  EXPECT_EQ(text_of("ij->...j"), "none");
  EXPECT_EQ(text_of("i1,1j->ij"), "none");
  EXPECT_EQ(text_of("ij->i->j"), "none");
  EXPECT_EQ(text_of("ij-ji"), "none");
}

TEST(Equation, AContractionHasEveryLetterInTwoOperandsOrInOneAndTheOutput) {
  EXPECT_TRUE(is_contraction("bmk,bkn->bmn"));
  EXPECT_TRUE(is_contraction("mk,kn"));
  EXPECT_TRUE(is_contraction("i,i->"));
  EXPECT_TRUE(is_contraction("ij->ji"));
  EXPECT_TRUE(is_contraction("ab,bc,cd->ad"));
  EXPECT_FALSE(is_contraction("ij,jk->i")) << "k is in one operand alone";
  EXPECT_FALSE(is_contraction("ij->i")) << "j is in one operand alone";
  EXPECT_FALSE(is_contraction("ii->i")) << "i is twice in an operand";
  EXPECT_FALSE(is_contraction("ij,jk->iik")) << "i is twice in the output";
  EXPECT_FALSE(is_contraction("i->ij")) << "j is in the output alone";
}

} // namespace equation_test

} // namespace weft
