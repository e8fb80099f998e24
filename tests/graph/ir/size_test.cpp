#include "weft/graph/ir/size.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace size_test {
using testing::error_text;
using testing::expect_contains;

TEST(Size, TextsOfExportedProgramsParseAndPrintAgain) {
  for (const auto* text :
       {"8", "-3", "s77", "2*s77", "(s77 + 3)//4", "Max(0, Min(3, s77 - 3))", "s0 - (s1 - s2)", "s0 - s1 - s2",
        "Mod(s0, 8)", "s0**2", "(s0**2)**s1", "(-1)*s0", "(s0 + 1)*(s1 + 1)", "s0//(s1//2)"}) {
    EXPECT_EQ(Size::parse(text).to_string(), text);
  }
  EXPECT_EQ(Size::parse("PythonMod(s0, 8)").to_string(), "Mod(s0, 8)");
  EXPECT_EQ(Size::parse("CeilDiv(s0, 8)").to_string(), "(s0 + 8 - 1)//8");
  EXPECT_EQ(Size::parse("Max(1, s0, s1)").to_string(), "Max(Max(1, s0), s1)");
  EXPECT_EQ(Size::parse("-s0**2"), Size(-1) * power(Size::symbol("s0"), 2));
}

TEST(Size, RoundsDownAsPythonDoes) {
  const auto at = [](const char* text, int64_t value) { return Size::parse(text).evaluate({{"s", value}}); };
  EXPECT_EQ(at("s//4", 7), 1);
  EXPECT_EQ(at("s//4", -7), -2);
  EXPECT_EQ(at("s//-4", 7), -2);
  EXPECT_EQ(at("Mod(s, 4)", -7), 1);
  EXPECT_EQ(at("s % -4", 7), -1);
  EXPECT_EQ(at("2**s", 10), 1024);
  EXPECT_EQ(at("Max(0, Min(3, s - 3))", 5), 2);
}

TEST(Size, NumbersAreComputedAtOnce) {
  EXPECT_TRUE((Size(3) * 4 + 1).is_number());
  EXPECT_EQ((Size(3) * 4 + 1).number(), 13);
  const auto s = Size::symbol("s");
  EXPECT_EQ(s + 0, s);
  EXPECT_EQ(Size(1) * s, s);
  EXPECT_EQ(floor_divide(s, 1), s);
  EXPECT_EQ(maximum(s, s), s);
  EXPECT_EQ(Size::parse("a*b + a").symbols(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ((s * 2).substitute({{"s", Size(4)}}), Size(8));
}

TEST(Size, SaysWhatItCannotCompute) {
  expect_contains(
      error_text<c10::ValueError>([] { Size::parse("s0").evaluate({}); }), "[Size] the symbol s0 has no value.");
  expect_contains(error_text<c10::ValueError>([] { Size::parse("4//0"); }), "a divisor must not be zero, in 4//0");
  expect_contains(error_text<c10::ValueError>([] { Size::parse("s0").number(); }), "a number is required, but got s0");
  const auto smallest = Size::parse("-9223372036854775807 - 1");
  expect_contains(error_text<c10::ValueError>([&] { floor_divide(smallest, -1); }), "is more than a size can be");
}

TEST(Size, NumbersAreOf64Bits) {
  constexpr auto kSmallest = std::numeric_limits<int64_t>::min();
  constexpr auto kLargest = std::numeric_limits<int64_t>::max();
  for (const auto number :
       {kSmallest, kSmallest + 1, kSmallest / 2 - 1, kSmallest / 2, int64_t{-1}, kLargest / 2, kLargest / 2 + 1,
        kLargest}) {
    Size size = number;
    EXPECT_TRUE(size.is_number());
    EXPECT_EQ(size.kind(), Size::Kind::Number);
    EXPECT_EQ(size.number(), number);
    EXPECT_EQ(size.evaluate({}), number);
    EXPECT_EQ(size.to_string(), std::to_string(number));
    EXPECT_TRUE(size.operands().empty());
    const auto copy = size;
    size = Size(3) * Size::symbol("s0");
    EXPECT_EQ(copy, Size(number));
    EXPECT_FALSE(copy == size);
  }
}

TEST(Size, BadTextIsAnErrorWithThePlace) {
  expect_contains(
      error_text<c10::ValueError>([] { Size::parse("s0 +"); }), "a size is required at position 4 of \"s0 +\"");
  expect_contains(error_text<c10::ValueError>([] { Size::parse("(s0"); }), "')' is required at position 3");
  expect_contains(error_text<c10::ValueError>([] { Size::parse("s0 s1"); }), "the end is required at position 3");
  expect_contains(
      error_text<c10::ValueError>([] { Size::parse("sin(s0, s1)"); }), "Max, Min, Mod, CeilDiv or FloorDiv");
  expect_contains(error_text<c10::ValueError>([] { Size::parse("99999999999999999999"); }), "more than a size can be");
}

TEST(Size, HostileTextsDoNotExhaustTheStack) {
  const auto repeated = [](const std::string& part) {
    std::string text;
    for (int i = 0; i < 200000; ++i) {
      text += part;
    }
    return text + "s";
  };
  for (const auto* part : {"-", "(", "s**", "s+", "Max(s,"}) {
    expect_contains(error_text<c10::ValueError>([&] { Size::parse(repeated(part)); }), "shorter or less nested");
  }
}

} // namespace size_test

} // namespace weft::graph
