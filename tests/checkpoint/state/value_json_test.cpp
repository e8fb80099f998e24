#include "weft/checkpoint/state/value_json.h"

#include "tests/support/error_text.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace weft {

namespace value_json_test {

using testing::error_text;
using testing::expect_contains;

std::string again(const std::string& json) {
  return value_json(parse_value(json, "x"), "x");
}

TEST(ValueJson, ComesBackAsItWas) {
  for (const auto* json :
       {"null", "true", "7", "-9223372036854775808", "0.1", "1.0", "\"text\"", "[1,[2.5,null]]", "{\"a\":{\"b\":[]}}",
        "{\"tuple\":[1,\"a\"]}", "{\"dict\":[[1,2],[3,4]]}", "{\"float\":\"nan\"}", "{\"float\":\"inf\"}",
        "{\"float\":\"-inf\"}", "{\"dict\":[[\"tuple\",1]]}", "{\"dict\":[[\"tensor\",1]]}"}) {
    EXPECT_EQ(again(json), json);
  }
  EXPECT_TRUE(std::isnan(parse_value("{\"float\":\"nan\"}", "x").toDouble()));
}

TEST(ValueJson, OfOtherTypesRaises) {
  expect_contains(
      error_text<c10::TypeError>([] { value_json(c10::IValue(c10::complex<double>(1, 2)), "z"); }),
      "[save] 'z' must be a tensor, a number, a text, a boolean, None, or a list, tuple or dict of such values, but "
      "got ComplexDouble.");
  expect_contains(
      error_text<c10::ValueError>([] { parse_value("{\"int\":\"99999999999999999999\"}", "n"); }),
      "[load] 'n' must fit into 64 bits");
  expect_contains(
      error_text<c10::ValueError>([] { parse_value("{\"step\":{\"tensor\":\"adam.step\"}}", "adam"); }),
      "[load] 'adam' must be a value, but it is the state of a Python object, with {\"tensor\":\"adam.step\"}.");
  for (const auto* json : {"9223372036854775808", "[1,18446744073709551615]", "{\"a\":9223372036854775808}"}) {
    expect_contains(
        error_text<c10::ValueError>([&] { parse_value(json, "n"); }), "[load] 'n' must fit into 64 bits, but got ");
  }
}

} // namespace value_json_test

} // namespace weft
