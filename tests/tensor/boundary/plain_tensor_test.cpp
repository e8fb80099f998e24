#include "weft/tensor/boundary/plain_tensor.h"
#include "tests/support/error_text.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace plain_tensor_test {
using testing::error_text;

TEST(PlainTensor, OneWithoutDenseMemoryIsRefused) {
  check_has_dense_memory("x", at::ones({2}));
  check_has_dense_memory("x", at::empty({2}, at::TensorOptions().device(at::kMeta)));
  EXPECT_NE(
      error_text<c10::NotImplementedError>([] {
        check_has_dense_memory("x", at::eye(2).to_sparse());
      }).find("Make it dense with to_dense."),
      std::string::npos);
  EXPECT_NE(
      error_text<c10::TypeError>([] {
        check_has_dense_memory("x", at::_efficientzerotensor({2}, at::TensorOptions()));
      }).find("Give its clone."),
      std::string::npos);
}

TEST(PlainTensor, OneWithoutDataStaysWithoutData) {
  const auto mesh = DeviceMesh::parse("mesh(a=2)");
  const auto meta = at::empty({2}, at::TensorOptions().device(at::kMeta));
  EXPECT_TRUE(on_device_of(mesh, meta).is_same(meta));
  const auto tensor = at::ones({2});
  EXPECT_TRUE(on_device_of(mesh, tensor).is_same(tensor));
}

} // namespace plain_tensor_test

} // namespace weft
