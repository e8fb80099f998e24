#include "weft/graph/ir/scalar_function.h"

#include "tests/support/error_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft::graph {

namespace scalar_function_test {
using c10::IValue;
using testing::error_text;
using testing::expect_contains;

constexpr auto kLargest = std::numeric_limits<int64_t>::max();
constexpr auto kSmallest = std::numeric_limits<int64_t>::min();

IValue call(const std::string& name, const std::vector<IValue>& arguments) {
  const auto* function = find_scalar_function(name);
  TORCH_CHECK(function != nullptr, name);
  EXPECT_EQ(function->arity, arguments.size()) << name;
  EXPECT_EQ(function->name, name);
  return function->call(arguments);
}

/// Expects this value, of this type.
void expect_result(const std::string& name, const std::vector<IValue>& arguments, const IValue& expected) {
  const auto result = call(name, arguments);
  EXPECT_EQ(result.tagKind(), expected.tagKind()) << name;
  EXPECT_EQ(result, expected) << name << " gives " << result << " instead of " << expected;
}

TEST(ScalarFunction, AreKnownByTheNamesOfExportedPrograms) {
  EXPECT_EQ(find_scalar_function("_operator.floordiv")->arity, 2);
  EXPECT_EQ(find_scalar_function("math.ceil")->arity, 1);
  EXPECT_EQ(find_scalar_function("floordiv"), nullptr);
}

TEST(ScalarFunction, IntegersStayIntegersAndTruthCountsAsOne) {
  expect_result("_operator.add", {2, 3}, 5);
  expect_result("_operator.add", {2, 3.0}, 5.0);
  expect_result("_operator.add", {true, true}, 2);
  expect_result("_operator.sub", {2, 3}, -1);
  expect_result("_operator.mul", {2.5, 2}, 5.0);
  expect_result("_operator.neg", {true}, -1);
  expect_result("_operator.neg", {0.5}, -0.5);
  expect_result("_operator.pos", {true}, 1);
  expect_result("_operator.truediv", {3, 2}, 1.5);
  expect_result("_operator.truediv", {4, 2}, 2.0);
}

TEST(ScalarFunction, DivisionRoundsDownAndTheRestHasTheDivisorsSign) {
  expect_result("_operator.floordiv", {7, 2}, 3);
  expect_result("_operator.floordiv", {-7, 2}, -4);
  expect_result("_operator.floordiv", {7, -2}, -4);
  expect_result("_operator.floordiv", {-7, -2}, 3);
  expect_result("_operator.floordiv", {kLargest, -1}, -kLargest);
  expect_result("_operator.floordiv", {-7.5, 2}, -4.0);
  expect_result("_operator.floordiv", {1.0, 0.1}, 9.0); // 0.1 is a little more than a tenth
  expect_result("_operator.mod", {7, 4}, 3);
  expect_result("_operator.mod", {-7, 4}, 1);
  expect_result("_operator.mod", {7, -4}, -1);
  expect_result("_operator.mod", {-8, 4}, 0);
  expect_result("_operator.mod", {kSmallest, -1}, 0);
  expect_result("_operator.mod", {-7.5, 4}, 0.5);
  expect_result("_operator.mod", {1.0, 0.1}, 0.09999999999999995);
  expect_result("_operator.mod", {5.3, 0.1}, 0.09999999999999953);
}

TEST(ScalarFunction, PowersAreExactOrAnError) {
  expect_result("_operator.pow", {2, 10}, 1024);
  expect_result("_operator.pow", {-3, 3}, -27);
  expect_result("_operator.pow", {-2, 63}, kSmallest);
  expect_result("_operator.pow", {1, kLargest}, 1);
  expect_result("_operator.pow", {0, 0}, 1);
  expect_result("_operator.pow", {2, -1}, 0.5);
  expect_result("_operator.pow", {2.0, 3}, 8.0);
  expect_contains(error_text<c10::ValueError>([] { call("_operator.pow", {2, 63}); }), "at most 64 bits is required");
  expect_contains(error_text<c10::ValueError>([] { call("_operator.pow", {0, -1}); }), "but got 0 ** -1");
  expect_contains(
      error_text<c10::ValueError>([] { call("_operator.pow", {-8.0, 0.5}); }),
      "a real result is required, but got -8 ** 0.5");
}

TEST(ScalarFunction, WhatPythonRaisesIsAnError) {
  for (const auto* name : {"_operator.floordiv", "_operator.mod", "_operator.truediv"}) {
    expect_contains(
        error_text<c10::ValueError>([&] { call(name, {7, 0}); }),
        "[division] a divisor other than zero is required, but got 7 by 0.");
    expect_contains(error_text<c10::ValueError>([&] { call(name, {7.0, 0.0}); }), "but got 7 by 0.");
  }
  expect_contains(
      error_text<c10::ValueError>([] { call("_operator.add", {kLargest, 1}); }), "[add] a result of at most 64 bits");
  expect_contains(error_text<c10::ValueError>([] { call("_operator.mul", {kLargest, 2}); }), "[mul] a result");
  expect_contains(error_text<c10::ValueError>([] { call("_operator.neg", {kSmallest}); }), "[sub] a result");
  for (const auto* name : {"math.ceil", "math.floor", "math.trunc", "round", "torch.sym_int"}) {
    expect_contains(
        error_text<c10::ValueError>([&] { call(name, {std::numeric_limits<double>::infinity()}); }),
        "[int] a float that an integer of 64 bits can hold is required, but got inf.");
    EXPECT_FALSE(error_text<c10::ValueError>([&] { call(name, {std::nan("")}); }).empty());
  }
}

TEST(ScalarFunction, RoundingGivesIntegers) {
  expect_result("math.ceil", {1.2}, 2);
  expect_result("math.ceil", {-1.2}, -1);
  expect_result("math.floor", {-1.2}, -2);
  expect_result("math.trunc", {-1.8}, -1);
  expect_result("torch.sym_int", {-1.8}, -1);
  expect_result("round", {0.5}, 0);
  expect_result("round", {1.5}, 2);
  expect_result("round", {2.5}, 2);
  expect_result("math.ceil", {kLargest}, kLargest);
  expect_result("round", {kLargest}, kLargest);
  expect_result("torch.sym_float", {3}, 3.0);
  expect_result("torch._sym_sqrt", {9}, 3.0);
  expect_result("math.sqrt", {2.25}, 1.5);
}

TEST(ScalarFunction, ComparisonsAndLogicGiveTruth) {
  expect_result("_operator.eq", {2, 2.0}, true);
  expect_result("_operator.ne", {2, 2}, false);
  expect_result("_operator.lt", {1, 2}, true);
  expect_result("_operator.le", {2, 2}, true);
  expect_result("_operator.gt", {1, 2}, false);
  expect_result("_operator.ge", {1.5, 2}, false);
  expect_result("_operator.and_", {true, false}, false);
  expect_result("_operator.and_", {6, 3}, 2);
  expect_result("_operator.or_", {true, false}, true);
  expect_result("_operator.or_", {6, 3}, 7);
  expect_result("torch.sym_not", {false}, true);
  expect_result("torch.sym_ite", {true, 3, 4}, 3);
  expect_result("torch.sym_ite", {false, 3, 4}, 4);
  expect_result("torch.sym_max", {3, 4}, 4);
  expect_result("torch.sym_min", {3, 4.5}, 3.0);
}

} // namespace scalar_function_test

} // namespace weft::graph
