#include "tests/support/error_text.h"
#include "weft/weft.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace type_promotion_test {

constexpr int64_t kRanks = 3;

/// An operator on a tensor and a number.
struct NumberOperator {
  const char* name;
  at::Tensor (*run)(const at::Tensor& tensor, const at::Scalar& number);
};

at::Tensor tensor_of(const at::Scalar& number) {
  return at::scalar_tensor(number, at::dtype(number.type()));
}

/// As Python's operators have it: `x + 2` is add.Tensor with a tensor that is marked as a number.
at::Tensor as_in_python(const at::Scalar& number) {
  auto tensor = tensor_of(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

const std::vector<NumberOperator> kOperators = {
    {"add", [](const at::Tensor& x, const at::Scalar& n) { return x + n; }},
    {"add, number first", [](const at::Tensor& x, const at::Scalar& n) { return n + x; }},
    {"add, alpha", [](const at::Tensor& x, const at::Scalar& n) { return at::add(x, n, 2); }},
    {"sub", [](const at::Tensor& x, const at::Scalar& n) { return x - n; }},
    {"sub, number first", [](const at::Tensor& x, const at::Scalar& n) { return n - x; }},
    {"rsub", [](const at::Tensor& x, const at::Scalar& n) { return at::rsub(x, n); }},
    {"mul", [](const at::Tensor& x, const at::Scalar& n) { return x * n; }},
    {"div", [](const at::Tensor& x, const at::Scalar& n) { return x / n; }},
    {"div, number first", [](const at::Tensor& x, const at::Scalar& n) { return n / x; }},
    {"div, floor", [](const at::Tensor& x, const at::Scalar& n) { return at::div(x, n, "floor"); }},
    {"remainder", [](const at::Tensor& x, const at::Scalar& n) { return at::remainder(x, n); }},
    {"pow", [](const at::Tensor& x, const at::Scalar& n) { return at::pow(x, n); }},
    {"pow, number first", [](const at::Tensor& x, const at::Scalar& n) { return at::pow(n, x); }},
    {"where", [](const at::Tensor& x, const at::Scalar& n) { return at::where(x.eq(2), x, n); }},
    {"where, number first", [](const at::Tensor& x, const at::Scalar& n) { return at::where(x.eq(2), n, x); }},
    {"clamp", [](const at::Tensor& x, const at::Scalar& n) { return at::clamp(x, n); }},
    {"lerp", [](const at::Tensor& x, const at::Scalar& n) { return at::lerp(x, x * x, n); }},
    {"addcmul", [](const at::Tensor& x, const at::Scalar& n) { return at::addcmul(x, x, x, n); }},
    {"addcdiv", [](const at::Tensor& x, const at::Scalar& n) { return at::addcdiv(x, x, x, n); }},
    {"eq", [](const at::Tensor& x, const at::Scalar& n) { return x.eq(n); }},
    {"xlogy", [](const at::Tensor& x, const at::Scalar& n) { return at::xlogy(x, n); }},
    {"maximum", [](const at::Tensor& x, const at::Scalar& n) { return at::maximum(x, tensor_of(n)); }},
    {"minimum", [](const at::Tensor& x, const at::Scalar& n) { return at::minimum(x, tensor_of(n)); }},
    {"add, 0-dim tensor", [](const at::Tensor& x, const at::Scalar& n) { return x + tensor_of(n); }},
    {"where, 0-dim tensor",
     [](const at::Tensor& x, const at::Scalar& n) { return at::where(x.eq(2), x, tensor_of(n)); }},
    {"add, as in Python", [](const at::Tensor& x, const at::Scalar& n) { return x + as_in_python(n); }},
    {"add, number first, as in Python", [](const at::Tensor& x, const at::Scalar& n) { return as_in_python(n) + x; }},
    {"sub, as in Python", [](const at::Tensor& x, const at::Scalar& n) { return x - as_in_python(n); }},
    {"sub, number first, as in Python", [](const at::Tensor& x, const at::Scalar& n) { return as_in_python(n) - x; }},
    {"mul, as in Python", [](const at::Tensor& x, const at::Scalar& n) { return x * as_in_python(n); }},
    {"div, as in Python", [](const at::Tensor& x, const at::Scalar& n) { return x / as_in_python(n); }},
    {"pow, as in Python", [](const at::Tensor& x, const at::Scalar& n) { return at::pow(x, as_in_python(n)); }},
    {"where, as in Python",
     [](const at::Tensor& x, const at::Scalar& n) { return at::where(x.eq(2), x, as_in_python(n)); }},
    {"maximum, as in Python", [](const at::Tensor& x, const at::Scalar& n) { return at::maximum(x, as_in_python(n)); }},
    {"lerp, as in Python",
     [](const at::Tensor& x, const at::Scalar& n) { return at::lerp(x, x * x, as_in_python(n)); }},
    {"addcmul, as in Python",
     [](const at::Tensor& x, const at::Scalar& n) { return at::addcmul(x, x, as_in_python(n)); }},
    {"_foreach_add", [](const at::Tensor& x, const at::Scalar& n) { return at::_foreach_add({x, x}, n)[1]; }},
};

/// What one rank holds of a partial tensor: small integers, so that no sum is rounded.
at::Tensor term(c10::IntArrayRef sizes, at::ScalarType dtype, int64_t rank) {
  const auto count = c10::multiply_integers(sizes);
  return (at::arange(count, at::kLong) + rank).remainder(3).add(1).view(sizes).to(dtype);
}

at::Tensor reduced(const std::vector<at::Tensor>& terms, ReduceOp op) {
  auto result = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    switch (op) {
      case ReduceOp::Sum:
      case ReduceOp::Avg:
        result = result + terms[i];
        break;
      case ReduceOp::Max:
        result = at::maximum(result, terms[i]);
        break;
      case ReduceOp::Min:
        result = at::minimum(result, terms[i]);
        break;
      case ReduceOp::Product:
        result = result * terms[i];
        break;
    }
  }
  return op == ReduceOp::Avg ? result / static_cast<double>(terms.size()) : result;
}

/// The result, or nothing where the operator refuses such arguments.
at::Tensor result_or_none(const NumberOperator& op, const at::Tensor& tensor, const at::Scalar& number) {
  try {
    return op.run(tensor, number);
  } catch (const std::exception&) {
    return {};
  }
}

struct PromotionCase {
  at::ScalarType dtype;
  ReduceOp op;
};

class PromotionBesidePartial : public ::testing::TestWithParam<PromotionCase> {};

/// A rank that promoted otherwise than the others would hold another dtype than the spec says.
TEST_P(PromotionBesidePartial, WithANumberIsThatOfASingleDeviceOnEveryRank) {
  const auto [dtype, op] = GetParam();
  const std::vector<at::Scalar> numbers = {2, 2.5, true, c10::complex<double>(1, 2)};
  for (const auto& sizes : std::vector<std::vector<int64_t>>{{}, {6}}) {
    std::vector<at::Tensor> terms;
    for (int64_t rank = 0; rank < kRanks; ++rank) {
      terms.push_back(term(sizes, dtype, rank));
    }
    const auto plain = reduced(terms, op);
    run_on_ranks(kRanks, [&, op = op](int64_t rank) {
      const auto mesh = init_device_mesh("cpu", {kRanks}, {"tp"});
      const auto tensor = from_local(terms[rank], mesh, Layout({Partial(op)}));
      for (const auto& function : kOperators) {
        for (const auto& number : numbers) {
          SCOPED_TRACE(c10::str(function.name, " ", number, " rank ", rank, " ", *as_dtensor(tensor)->spec()));
          const auto expected = result_or_none(function, plain, number);
          if (!expected.defined()) {
            EXPECT_ANY_THROW(function.run(tensor, number));
            continue;
          }
          const auto actual = function.run(tensor, number);
          ASSERT_EQ(actual.scalar_type(), expected.scalar_type());
          ASSERT_EQ(to_local(actual).scalar_type(), expected.scalar_type());
          const double tolerance = dtype == at::kBFloat16 ? 1e-1 : 1e-5;
          const auto global = full_tensor(actual);
          EXPECT_TRUE(at::allclose(global, expected, tolerance, tolerance, /*equal_nan=*/true))
              << global << "\nis not\n"
              << expected;
        }
      }
    });
  }
}

std::vector<PromotionCase> promotion_cases() {
  std::vector<PromotionCase> cases;
  for (const auto dtype : {at::kDouble, at::kFloat, at::kBFloat16, at::kLong, at::kInt, at::kComplexFloat}) {
    for (const auto op : {ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min, ReduceOp::Product}) {
      const bool is_ordered = !c10::isComplexType(dtype) || (op != ReduceOp::Max && op != ReduceOp::Min);
      const bool may_be_averaged = !c10::isIntegralType(dtype, /*includeBool=*/true) || op != ReduceOp::Avg;
      if (is_ordered && may_be_averaged) {
        cases.push_back({dtype, op});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(
    DtypesAndReductions,
    PromotionBesidePartial,
    ::testing::ValuesIn(promotion_cases()),
    [](const auto& test) { return c10::str(test.param.dtype, "_", static_cast<int>(test.param.op)); });

TEST(TypePromotion, ALossWithANumberAddedHasAGradient) {
  run_on_ranks(2, [](int64_t /*rank*/) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto plain = at::arange(4, at::kFloat).requires_grad_();
    const auto weight = distribute_tensor(plain.detach(), mesh, Layout({Shard(0)})).requires_grad_();
    ((plain * plain).sum() + 1e-3).backward();
    const auto loss = (weight * weight).sum() + as_in_python(1e-3);
    EXPECT_EQ(to_local(loss).scalar_type(), at::kFloat);
    loss.backward();
    EXPECT_TRUE(full_tensor(weight.grad()).equal(plain.grad()));
  });
}

TEST(TypePromotion, AnIntegerIsAddedToAnAverageWithoutReducingIt) {
  run_on_ranks(2, [](int64_t rank) {
    const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
    const auto average = from_local(at::full({2}, static_cast<double>(rank)), mesh, Layout({Partial(ReduceOp::Avg)}));
    const auto integers = distribute_tensor(at::arange(2), mesh, Layout({Replicate()}));
    for (const auto& sum : {average + 1, 1 + average, average + integers, integers + average}) {
      EXPECT_EQ(placements(sum)[0], Partial(ReduceOp::Avg));
    }
    EXPECT_TRUE(full_tensor(average + 1).equal(at::full({2}, 1.5, at::kDouble)));
    EXPECT_TRUE(full_tensor(integers - average).equal(at::tensor({-0.5, 0.5}, at::kDouble)));
  });
}

} // namespace type_promotion_test

} // namespace weft
