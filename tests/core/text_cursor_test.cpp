#include "weft/core/text_cursor.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace weft {

namespace text_cursor_test {
using testing::error_text;

TEST(TextCursor, WalksOverTokensWordsAndIntegers) {
  TextCursor cursor("test", "mesh(dp_0=2, tp=-4)[]");
  cursor.expect("mesh(");
  EXPECT_EQ(cursor.word(), "dp_0");
  EXPECT_FALSE(cursor.accept(","));
  cursor.expect("=");
  EXPECT_EQ(cursor.integer(), 2);
  EXPECT_TRUE(cursor.accept(","));
  EXPECT_EQ(cursor.word(), "tp");
  cursor.expect("=");
  EXPECT_EQ(cursor.integer(), -4);
  EXPECT_FALSE(cursor.at_end());
  cursor.expect(")");
  cursor.expect("[]");
  EXPECT_TRUE(cursor.at_end());
  cursor.expect_end();
}

TEST(TextCursor, ShowsWhatIsAheadAndGoesPastIt) {
  TextCursor cursor("test", "a  \"b c\" d");
  EXPECT_EQ(cursor.word(), "a");
  EXPECT_EQ(cursor.rest(), "\"b c\" d");
  cursor.skip(5);
  EXPECT_EQ(cursor.word(), "d");
  EXPECT_EQ(cursor.rest(), "");
}

TEST(TextCursor, TakesOnlyCompleteWords) {
  TextCursor cursor("test", "inner in cuda:0");
  EXPECT_FALSE(cursor.accept_word("in"));
  EXPECT_EQ(cursor.word(), "inner");
  EXPECT_TRUE(cursor.accept_word("in"));
  EXPECT_EQ(cursor.word_ahead(), "cuda");
  EXPECT_EQ(cursor.word_ahead(":"), "cuda:0");
  EXPECT_FALSE(cursor.at_end());
}

TEST(TextCursor, SkipsSpacesBeforeEverything) {
  TextCursor cursor("test", " \t( \n word  12  1 , 2 )  ");
  EXPECT_TRUE(cursor.accept("("));
  EXPECT_EQ(cursor.word(), "word");
  EXPECT_EQ(cursor.integer(), 12);
  EXPECT_EQ(cursor.integers(), (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(cursor.accept(")"));
  EXPECT_TRUE(cursor.at_end());
}

TEST(TextCursor, AcceptTakesNothingWhereTheTokenIsNotNext) {
  TextCursor cursor("test", "SS(0)");
  EXPECT_FALSE(cursor.accept("S("));
  EXPECT_FALSE(cursor.accept("SS(0) and more"));
  EXPECT_TRUE(cursor.accept("SS("));
}

TEST(TextCursor, IntegersMayBeNone) {
  for (const auto* text : {"", "]", " ]", "x"}) {
    EXPECT_TRUE(TextCursor("test", text).integers().empty()) << text;
  }
  EXPECT_EQ(TextCursor("test", "-7").integers(), std::vector<int64_t>{-7});
  EXPECT_EQ(TextCursor("test", "1,2,-3]").integers(), (std::vector<int64_t>{1, 2, -3}));
}

TEST(TextCursor, IntegersReachToTheEndsOfInt64) {
  EXPECT_EQ(TextCursor("test", "9223372036854775807").integer(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(TextCursor("test", "-9223372036854775808").integer(), std::numeric_limits<int64_t>::min());
}

TEST(TextCursor, MismatchRaisesWithThePlaceAndTheText) {
  struct Mismatch {
    std::string text;
    std::function<void(TextCursor&)> read;
    std::string expected;
  };
  const std::vector<Mismatch> mismatches = {
      {"a", [](TextCursor& cursor) { cursor.expect("b"); }, "'b' at column 1"},
      {"  a", [](TextCursor& cursor) { cursor.expect("aa"); }, "'aa' at column 3"},
      {"", [](TextCursor& cursor) { cursor.expect("b"); }, "'b' at column 1"},
      {" =", [](TextCursor& cursor) { cursor.word(); }, "a word of letters, digits and underscores at column 2"},
      {"x", [](TextCursor& cursor) { cursor.integer(); }, "an integer at column 1"},
      {"+1", [](TextCursor& cursor) { cursor.integer(); }, "an integer at column 1"},
      {"9223372036854775808", [](TextCursor& cursor) { cursor.integer(); }, "an integer at column 1"},
      {"1,2,", [](TextCursor& cursor) { cursor.integers(); }, "an integer at column 5"},
      {"1,,2", [](TextCursor& cursor) { cursor.integers(); }, "an integer at column 3"},
      {"-", [](TextCursor& cursor) { cursor.integers(); }, "an integer at column 1"},
      {"a b", [](TextCursor& cursor) { cursor.word(), cursor.expect_end(); }, "the end of the text at column 3"},
      {"ab", [](TextCursor& cursor) { cursor.accept("a"), cursor.fail("a better b"); }, "a better b at column 2"},
  };
  for (const auto& [text, read, expected] : mismatches) {
    TextCursor cursor("where", text);
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { read(cursor); }),
        "[where] expected " + expected + ", but got '" + text + "'. See docs/notation.md for the notation.");
  }
}

} // namespace text_cursor_test

} // namespace weft
