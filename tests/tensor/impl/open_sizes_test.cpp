#include "weft/tensor/impl/open_sizes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace open_sizes_test {

TEST(OpenSizes, AreThoseOfTracedTensorsAlone) {
  EXPECT_FALSE(has_open_sizes(at::Tensor()));
  auto tensor = at::empty({2}, at::kMeta);
  tensor.unsafeGetTensorImpl()->set_python_dispatch(true);
  EXPECT_FALSE(has_open_sizes(tensor));
}

TEST(OpenSizes, AFunctionIsGeneralisedByThePackage) {
  const auto twice = [](const at::Tensor& tensor) { return tensor * 2; };
  generalise_by([](const at::Tensor& tensor, const TensorFunction& function) { return function(tensor + 1); });
  EXPECT_EQ(over_open_sizes(at::ones({}), twice).item().toDouble(), 4);
  generalise_by(nullptr);
  EXPECT_ANY_THROW(over_open_sizes(at::ones({}), twice));
}

} // namespace open_sizes_test

} // namespace weft
