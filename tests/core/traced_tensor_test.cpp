#include "weft/core/traced_tensor.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace traced_tensor_test {

at::Tensor with_python_key() {
  auto tensor = at::ones({2});
  tensor.unsafeGetTensorImpl()->set_python_dispatch(true);
  return tensor;
}

TEST(TracedTensor, OneWhoseOperatorsRunInPython) {
  EXPECT_FALSE(is_traced(at::Tensor()));
  EXPECT_FALSE(is_traced(at::ones({2})));
  EXPECT_TRUE(is_traced(with_python_key()));
}

TEST(TracedTensor, OfATracerIfThePackageSaysSo) {
  recognize_tracers_by(nullptr);
  EXPECT_FALSE(is_of_tracer(with_python_key()));
  recognize_tracers_by([](const at::TensorBase&) { return true; });
  EXPECT_TRUE(is_of_tracer(with_python_key()));
  EXPECT_FALSE(is_of_tracer(at::ones({2})));
  recognize_tracers_by(nullptr);
}

TEST(TracedTensor, AnUntracedScopeHidesOperators) {
  const c10::impl::IncludeDispatchKeyGuard mode(c10::python_ks); // as a mode of Python does
  const UntracedScope untraced;
  EXPECT_EQ(at::ones({2}).sum().item().toDouble(), 2);
}

} // namespace traced_tensor_test

} // namespace weft
