#include "weft/propagation/global_meta.h"
#include "tests/support/error_text.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace global_meta_test {
using namespace weft::testing;

std::optional<std::vector<GlobalMeta>> results_of(
    const char* name,
    const char* overload,
    const std::vector<c10::IValue>& arguments) {
  return global_results(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload), arguments);
}

TEST(GlobalMeta, AResultHasTheSizesStridesAndDtypeOfTheSingleDevice) {
  const auto x = at::empty({5, 3}).t();
  const auto results = results_of("aten::add", "Tensor", {x, at::empty({3, 1}, at::kDouble), 1});
  ASSERT_TRUE(results.has_value());
  ASSERT_EQ(results->size(), 1U);
  const auto expected = at::add(x, at::empty({3, 1}, at::kDouble));
  const auto& meta = (*results)[0];
  EXPECT_TRUE(meta.defined);
  EXPECT_EQ(c10::IntArrayRef(meta.sizes), expected.sizes());
  EXPECT_EQ(c10::IntArrayRef(meta.strides), expected.strides());
  EXPECT_EQ(meta.dtype, at::kDouble);
}

TEST(GlobalMeta, AViewHasAnOffset) {
  const auto results = results_of("aten::select", "int", {at::empty({4, 6}), 0, 2});
  ASSERT_TRUE(results.has_value());
  EXPECT_EQ(results->at(0).offset, 12);
  // The offset is relative to the tensor that is viewed, whatever that tensor's own offset is.
  EXPECT_EQ(results_of("aten::select", "int", {at::empty({5, 6}).slice(0, 1), 0, 2})->at(0).offset, 12);
}

TEST(GlobalMeta, ListsAndSeveralReturnsAreOneAfterTheOther) {
  const auto chunks = results_of("aten::split", "Tensor", {at::empty({5, 2}), 2, 0});
  ASSERT_EQ(chunks->size(), 3U);
  EXPECT_EQ(c10::IntArrayRef(chunks->at(2).sizes), (c10::IntArrayRef{1, 2}));
  EXPECT_EQ(chunks->at(2).offset, 8);
  const auto sorted = results_of("aten::sort", "", {at::empty({5, 2}), 0, false});
  ASSERT_EQ(sorted->size(), 2U);
  EXPECT_EQ(sorted->at(1).dtype, at::kLong);
}

TEST(GlobalMeta, AnOutArgumentThatWouldBeResizedIsAnError) {
  const auto x = at::empty({3, 8});
  EXPECT_TRUE(results_of("aten::mul", "out", {x, x, at::empty({3, 8})}).has_value());
  for (const auto& out : {at::empty({6, 8}), at::empty({0})}) {
    EXPECT_EQ(
        error_text<c10::ValueError>([&] { results_of("aten::mul", "out", {x, x, out}); }),
        c10::str(
            "[aten::mul] argument 'out' must have the shape of the result, [3, 8], but got ", out.sizes(),
            ": a distributed tensor is not resized. Use the functional form."));
  }
}

TEST(GlobalMeta, ANumberKeepsItsPriorityInTypePromotion) {
  auto number = at::scalar_tensor(2.5, at::kDouble);
  EXPECT_EQ(results_of("aten::mul", "Tensor", {at::empty({2}), number})->at(0).dtype, at::kFloat);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  EXPECT_EQ(results_of("aten::mul", "Tensor", {at::empty({2}, at::kHalf), number})->at(0).dtype, at::kHalf);
}

TEST(GlobalMeta, TensorsMayBeAbsent) {
  c10::List<std::optional<at::Tensor>> indices;
  indices.push_back(std::nullopt);
  indices.push_back(at::zeros({2, 3}, at::kLong));
  const auto results = results_of("aten::index", "Tensor", {at::empty({5, 4}), indices});
  ASSERT_TRUE(results.has_value());
  EXPECT_EQ(c10::IntArrayRef(results->at(0).sizes), (c10::IntArrayRef{5, 2, 3}));
}

TEST(GlobalMeta, NothingIsKnownWhereSizesFollowFromValues) {
  EXPECT_FALSE(results_of("aten::nonzero", "", {at::ones({4})}).has_value());
}

TEST(GlobalMeta, ArgumentsThatNoDeviceTakesRaise) {
  expect_contains(
      error_text([] { results_of("aten::mm", "", {at::empty({4, 2}), at::empty({3, 4})}); }),
      "mat1 and mat2 shapes cannot be multiplied (4x2 and 3x4)");
}

TEST(GlobalMeta, NothingIsComputedOrWritten) {
  const auto x = at::ones({2});
  results_of("aten::mul_", "Scalar", {x, 3});
  EXPECT_TRUE(at::equal(x, at::ones({2})));
}

} // namespace global_meta_test

} // namespace weft
