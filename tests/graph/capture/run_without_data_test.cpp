#include "weft/graph/capture/run_without_data.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft::graph {

namespace run_without_data_test {
torch::jit::Stack run(const char* name, torch::jit::Stack stack) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  run_without_data(op, c10::DispatchKeySet(c10::DispatchKey::Meta), &stack);
  return stack;
}

TEST(RunWithoutData, AnOperatorWithAKernelForMetaRunsThere) {
  const auto results = run("aten::relu", {at::empty({2, 3}, at::kMeta)});
  ASSERT_EQ(results.size(), 1U);
  EXPECT_TRUE(results[0].toTensor().is_meta());
}

TEST(RunWithoutData, OneWithoutGivesTheSameShapes) {
  const auto results = run("aten::abs", {at::empty({2, 3}, at::TensorOptions(at::kMeta).dtype(at::kHalf)).t()});
  ASSERT_EQ(results.size(), 1U);
  EXPECT_TRUE(results[0].toTensor().is_meta());
  EXPECT_EQ(results[0].toTensor().strides(), at::ones({2, 3}).t().abs().strides());
  EXPECT_EQ(results[0].toTensor().scalar_type(), at::kHalf);
}

TEST(RunWithoutData, WhatDependsOnValuesRaises) {
  EXPECT_THROW(run("aten::nonzero", {at::empty({2}, at::kMeta)}), c10::Error);
  EXPECT_THROW(run("aten::_local_scalar_dense", {at::empty({}, at::kMeta)}), c10::Error);
  EXPECT_THROW(run("aten::mm", {at::empty({2, 3}, at::kMeta), at::empty({2, 3}, at::kMeta)}), c10::Error);
}

} // namespace run_without_data_test

} // namespace weft::graph
