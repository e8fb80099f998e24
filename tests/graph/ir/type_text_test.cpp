#include "weft/graph/ir/type_text.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace type_text_test {
using testing::error_text;
using testing::expect_contains;

Type parsed(std::string_view text) {
  TextCursor cursor("test", text);
  auto type = parse_type(cursor);
  cursor.expect_end();
  return type;
}

TEST(TypeText, TextsParseBack) {
  for (const auto* text :
       {"f32[]", "f32[4,8]", "bool[0]", "i64[s77,Max(1, s0 + 2)*3]", "f32[4,8|1,4]", "bf16[2] cuda:0", "f32[2] grad",
        "f32[2|3] meta grad", "int", "int(s77 + 1)", "bool(Eq(Mod(s0, 2), 0))", "float(3.5*s0)", "int(\"a)\\\"\")"}) {
    EXPECT_EQ(to_string(parsed(text)), text);
  }
}

TEST(TypeText, OnlyWhatIsUnusualIsWritten) {
  EXPECT_EQ(to_string(contiguous_type(at::kFloat, {2, 3})), "f32[2,3]");
  auto type = contiguous_type(at::kFloat, {2, 3}, c10::Device(c10::kCUDA, 1));
  type.requires_grad = true;
  type.strides = {1, 2};
  EXPECT_EQ(to_string(type), "f32[2,3|1,2] cuda:1 grad");
  EXPECT_EQ(to_string(NumberType{NumberKind::Int, ") ("}), "int(\") (\")");
}

TEST(TypeText, BadTextIsAnErrorWithThePlace) {
  expect_contains(
      error_text<c10::ValueError>([] { parsed("f33[2]"); }),
      "[test] expected a dtype, int, float or bool at column 1, but got 'f33[2]'.");
  expect_contains(error_text<c10::ValueError>([] { parsed("f32[2,+]"); }), "expected a size at column 7");
  expect_contains(error_text<c10::ValueError>([] { parsed("f32[2"); }), "expected ']' at column 6");
  expect_contains(error_text<c10::ValueError>([] { parsed("f32[2] gpu"); }), "expected a device or grad at column 8");
  expect_contains(error_text<c10::ValueError>([] { parsed("int(s0"); }), "expected ')' at column 7");
}

} // namespace type_text_test

} // namespace weft::graph
