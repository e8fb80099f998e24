#include "weft/graph/pt2/sympy_text.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace sympy_text_test {
const std::string kS = "Symbol('s77', positive=True, integer=True)";
const std::string kT = "Symbol('s0', positive=True, integer=True)";

std::string text_of(const std::string& sympy) {
  const auto size = size_of_sympy(sympy);
  return size ? size->to_string() : "none";
}

TEST(SympyText, IsReadAsPeopleWriteIt) {
  EXPECT_EQ(text_of("Integer(-3)"), "-3");
  EXPECT_EQ(text_of(kS), "s77");
  EXPECT_EQ(text_of("Symbol('u0', integer=True)"), "u0");
  EXPECT_EQ(text_of("Add(Integer(3), Mul(Integer(2), " + kS + "))"), "2*s77 + 3");
  EXPECT_EQ(text_of("Add(" + kS + ", Mul(Integer(-1), " + kT + "), Integer(-1))"), "s77 - s0 - 1");
  EXPECT_EQ(text_of("FloorDiv(" + kS + ", Integer(4))"), "s77//4");
  EXPECT_EQ(text_of("Max(Integer(1), " + kS + ")"), "Max(1, s77)");
  EXPECT_EQ(text_of("Min(" + kT + ", Integer(8), " + kS + ")"), "Min(Min(s0, 8), s77)");
  EXPECT_EQ(text_of("PythonMod(" + kS + ", Integer(4))"), "Mod(s77, 4)");
  EXPECT_EQ(text_of("Pow(" + kS + ", Integer(2))"), "s77**2");
  EXPECT_EQ(text_of("CeilToInt(IntTrueDiv(" + kS + ", Integer(2)))"), "(s77 + 2 - 1)//2");
}

TEST(SympyText, FractionsThatAreIntegersAreDivisions) {
  EXPECT_EQ(text_of("Mul(Rational(1, 2), " + kS + ")"), "s77//2");
  EXPECT_EQ(text_of("Add(Mul(Rational(1, 2), " + kS + "), Rational(1, 2))"), "(s77 + 1)//2");
  EXPECT_EQ(text_of("Mul(" + kS + ", Pow(" + kT + ", Integer(-1)))"), "s77//s0");
}

TEST(SympyText, WhatIsNoSizeGivesNone) {
  for (const auto* text :
       {"", "s77", "Integer(", "Integer()", "Integer(99999999999999999999)", "Symbol('')", "Symbol('1')", "Symbol(s77)",
        "Equality(Integer(1), Integer(2))", "Float('1.5', precision=53)", "Add()", "Integer(1) x",
        "Mod(Integer(1), Integer(0))", "Pow(Integer(2), Integer(100))", "Rational(1, 0)"}) {
    EXPECT_EQ(text_of(text), "none") << text;
  }
}

TEST(SympyText, HostileTextIsRefusedAndNotFollowed) {
  std::string deep;
  std::string wide = "Add(";
  for (int i = 0; i < 100000; ++i) {
    deep += "Identity(";
    wide += kS + ", ";
  }
  EXPECT_EQ(text_of(deep), "none");
  EXPECT_EQ(text_of(wide + "Integer(1))"), "none");
}

TEST(SympyText, WhatIsWrittenIsReadAgain) {
  for (const auto* text :
       {"8", "s77", "2*s77 + 3", "s77 - s0", "(s77 + 3)//4", "Max(0, Min(3, s77 - 3))", "Mod(s77, 4)*s0**2",
        "u3 + 1"}) {
    const auto size = Size::parse(text);
    EXPECT_EQ(text_of(sympy_of_size(size)), size.to_string()) << sympy_of_size(size);
  }
  EXPECT_EQ(sympy_of_size(Size::parse("s77 - u0")), "Add(" + kS + ", Mul(Integer(-1), Symbol('u0', integer=True)))");
}

} // namespace sympy_text_test

} // namespace weft::graph
