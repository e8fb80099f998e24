#include "weft/overlap/measure/compute_rate.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace weft {

namespace compute_rate_test {
TEST(ComputeRate, IsThatOfMatmulsOfTheDtype) {
  for (const auto dtype : {at::kFloat, at::kBFloat16, at::kDouble, at::kFloat8_e4m3fn}) {
    const auto compute = measured_compute(at::kCPU, dtype);
    EXPECT_GT(compute.flops_per_second, 1e6) << dtype;
    EXPECT_LT(compute.flops_per_second, 1e15) << dtype;
    EXPECT_GT(compute.bytes_per_second, 1e6) << dtype;
    EXPECT_GT(compute.call_seconds, 0) << dtype;
    EXPECT_LT(compute.call_seconds, 0.1) << dtype;
    EXPECT_EQ(compute.message_seconds, 0);
  }
}

TEST(ComputeRate, IsMeasuredOncePerDtypeAndNumberOfThreads) {
  const auto first = measured_compute(at::kCPU, at::kFloat);
  EXPECT_EQ(measured_compute(at::kCPU, at::kFloat).flops_per_second, first.flops_per_second);
}

TEST(ComputeRate, IsAConstantWhereNothingCanBeMeasured) {
  const auto core = assumed_compute(c10::kCPU, at::kFloat);
  const auto gpu = assumed_compute(c10::kCUDA, at::kBFloat16);
  EXPECT_GT(gpu.flops_per_second, 100 * core.flops_per_second);
  EXPECT_GT(assumed_compute(c10::kCUDA, at::kFloat8_e4m3fn).flops_per_second, gpu.flops_per_second);
  EXPECT_LT(assumed_compute(c10::kCUDA, at::kFloat).flops_per_second, gpu.flops_per_second);
}

} // namespace compute_rate_test

} // namespace weft
