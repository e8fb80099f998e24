#include "weft/propagation/operator_schema.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

namespace weft {

namespace operator_schema_test {
using Kind = OperatorSchema::ArgumentKind;

OperatorSchema schema_of(const char* name, const char* overload) {
  return OperatorSchema(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).schema());
}

TEST(OperatorSchema, AFunctionalOperatorStoresNothing) {
  const auto schema = schema_of("aten::add", "Tensor");
  EXPECT_EQ(schema.arguments, (std::vector<Kind>{Kind::Tensor, Kind::Tensor, Kind::Value}));
  EXPECT_EQ(schema.is_out, (std::vector<bool>{false, false, false}));
  EXPECT_TRUE(schema.written.empty());
  EXPECT_FALSE(schema.is_view);
  ASSERT_EQ(schema.returns.size(), 1U);
  EXPECT_TRUE(schema.returns[0].is_tensor);
  EXPECT_EQ(schema.returns[0].stored_in, -1);
  EXPECT_EQ(schema.returns[0].view_of, -1);
}

TEST(OperatorSchema, AnInPlaceOperatorStoresInItsFirstArgument) {
  const auto schema = schema_of("aten::add_", "Tensor");
  EXPECT_EQ(schema.written, (std::vector<int64_t>{0}));
  EXPECT_FALSE(schema.is_view);
  EXPECT_EQ(schema.is_out, (std::vector<bool>{false, false, false}));
  ASSERT_EQ(schema.returns.size(), 1U);
  EXPECT_EQ(schema.returns[0].stored_in, 0);
  EXPECT_EQ(schema.returns[0].view_of, -1);
}

TEST(OperatorSchema, AnOutArgumentIsWrittenAndReturned) {
  const auto schema = schema_of("aten::add", "out");
  EXPECT_EQ(schema.written, (std::vector<int64_t>{3}));
  EXPECT_EQ(schema.is_out, (std::vector<bool>{false, false, false, true}));
  ASSERT_EQ(schema.returns.size(), 1U);
  EXPECT_EQ(schema.returns[0].stored_in, 3);
}

TEST(OperatorSchema, EveryOutArgumentBelongsToItsOwnReturn) {
  const auto schema = schema_of("aten::sort", "values");
  ASSERT_EQ(schema.returns.size(), 2U);
  EXPECT_EQ(schema.written, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(schema.returns[0].stored_in, 3);
  EXPECT_EQ(schema.returns[1].stored_in, 4);
}

TEST(OperatorSchema, AViewSharesTheMemoryOfItsBase) {
  const auto schema = schema_of("aten::view", "");
  EXPECT_EQ(schema.arguments, (std::vector<Kind>{Kind::Tensor, Kind::Static}));
  EXPECT_TRUE(schema.is_view);
  EXPECT_TRUE(schema.written.empty());
  ASSERT_EQ(schema.returns.size(), 1U);
  EXPECT_EQ(schema.returns[0].view_of, 0);
  EXPECT_EQ(schema.returns[0].stored_in, -1);
}

TEST(OperatorSchema, AListOfViewsSharesTheMemoryOfItsBase) {
  const auto schema = schema_of("aten::split", "Tensor");
  ASSERT_EQ(schema.returns.size(), 1U);
  EXPECT_TRUE(schema.returns[0].is_tensor);
  EXPECT_EQ(schema.returns[0].view_of, 0);
  EXPECT_TRUE(schema.is_view);
}

TEST(OperatorSchema, AListOfTensorsIsKnownAsSuch) {
  const auto schema = schema_of("aten::cat", "");
  EXPECT_EQ(schema.arguments, (std::vector<Kind>{Kind::TensorList, Kind::Static}));
  // Tensors of an index may be absent.
  EXPECT_EQ(schema_of("aten::index", "Tensor").arguments, (std::vector<Kind>{Kind::Tensor, Kind::OptionalTensorList}));
}

TEST(OperatorSchema, AListThatIsWrittenIsKnownAsSuch) {
  const auto schema = schema_of("aten::_foreach_add_", "Scalar");
  EXPECT_EQ(schema.written, (std::vector<int64_t>{0}));
  EXPECT_TRUE(schema.returns.empty());
}

TEST(OperatorSchema, WhatIsWrittenNeedNotBeReturned) {
  // input, weight, bias, running_mean, running_var, training, momentum, eps
  const auto schema = schema_of("aten::_native_batch_norm_legit", "");
  EXPECT_EQ(schema.written, (std::vector<int64_t>{3, 4}));
  ASSERT_EQ(schema.returns.size(), 3U);
  for (const auto& ret : schema.returns) {
    EXPECT_EQ(ret.stored_in, -1);
  }
}

TEST(OperatorSchema, FloatsAndScalarsAreValuesAndOptionalTensorsAreTensors) {
  // input, normalized_shape, weight, bias, eps
  const auto schema = schema_of("aten::native_layer_norm", "");
  EXPECT_EQ(schema.arguments, (std::vector<Kind>{Kind::Tensor, Kind::Static, Kind::Tensor, Kind::Tensor, Kind::Value}));
  ASSERT_EQ(schema.returns.size(), 3U);
  EXPECT_TRUE(schema.returns[2].is_tensor);
  // self, tensor1, tensor2, value
  EXPECT_EQ(
      schema_of("aten::addcmul", "").arguments,
      (std::vector<Kind>{Kind::Tensor, Kind::Tensor, Kind::Tensor, Kind::Value}));
}

TEST(OperatorSchema, WhatMayChangeTheRuleIsStatic) {
  // self, dim, keepdim, dtype
  EXPECT_EQ(
      schema_of("aten::sum", "dim_IntList").arguments,
      (std::vector<Kind>{Kind::Tensor, Kind::Static, Kind::Static, Kind::Static}));
  // self, approximate
  EXPECT_EQ(schema_of("aten::gelu", "").arguments, (std::vector<Kind>{Kind::Tensor, Kind::Static}));
}

TEST(OperatorSchema, ANumberThatComesOutIsNoTensor) {
  const auto schema = schema_of("aten::_local_scalar_dense", "");
  ASSERT_EQ(schema.returns.size(), 1U);
  EXPECT_FALSE(schema.returns[0].is_tensor);
}

} // namespace operator_schema_test

} // namespace weft
