#include "weft/comm/stream_point.h"

#include <gtest/gtest.h>

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace weft {

namespace stream_point_test {

TEST(StreamPoint, OnTheCpuThereIsNothingToOrder) {
  const auto point = StreamPoint::now(c10::Device(c10::kCPU));
  EXPECT_NO_THROW(point.precede_current());
  EXPECT_NO_THROW(StreamPoint().precede_current());
  EXPECT_FALSE(is_captured(c10::Device(c10::kCPU)));
}

#ifdef WEFT_TEST_CUDA

TEST(StreamPoint, AnotherStreamReadsWhatWasWrittenBefore) {
  const c10::Device device(c10::kCUDA, 0);
  const c10::impl::VirtualGuardImpl streams(c10::kCUDA);
  const auto large = at::ones({4096, 4096}, device) / 4096;
  const auto written = at::zeros({4}, device);
  auto product = large;
  for (int i = 0; i < 50; ++i) {
    product = product.matmul(large);
  }
  written.fill_(4096).mul_(product[0][0]); // 1, after milliseconds
  const auto point = StreamPoint::now(device);
  const auto before = streams.exchangeStream(streams.getStreamFromGlobalPool(device));
  EXPECT_NE(before, streams.getStream(device));
  point.precede_current();
  const auto read = written.clone();
  streams.getStream(device).synchronize();
  streams.exchangeStream(before);
  EXPECT_TRUE(at::allclose(read.cpu(), at::ones({4}), 1e-3));
}

TEST(StreamPoint, WhatIsRunAtOnceIsNotCaptured) {
  EXPECT_FALSE(is_captured(c10::Device(c10::kCUDA, 0)));
}

#endif

} // namespace stream_point_test
} // namespace weft
