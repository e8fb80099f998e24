#include "weft/fully_sharded/buffer_pool.h"

#include "tests/support/error_text.h"

#include <ATen/ATen.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/FakeGuardImpl.h>
#include <gtest/gtest.h>

namespace weft {

namespace buffer_pool_test {
using testing::expect_contains;

TEST(BufferPool, MemoryThatWasGivenBackIsTakenAgain) {
  BufferPool pool;
  auto memory = pool.take(1024, at::kCPU);
  const auto* address = memory.get();
  pool.give(std::move(memory), 1024);
  EXPECT_EQ(pool.bytes(), 1024);
  EXPECT_EQ(pool.take(600, at::kCPU).get(), address);
  EXPECT_EQ(pool.bytes(), 0);
}

TEST(BufferPool, ASmallBufferDoesNotKeepALargeOne) {
  BufferPool pool;
  pool.give(pool.take(4096, at::kCPU), 4096);
  const auto memory = pool.take(64, at::kCPU);
  EXPECT_EQ(pool.bytes(), 4096);
}

TEST(BufferPool, KeepsNoMoreThanTheLastOnes) {
  BufferPool pool;
  for (size_t bytes : {64, 128, 256}) {
    pool.give(pool.take(bytes, at::kCPU), bytes);
    pool.give(at::DataPtr(c10::GetAllocator(at::kCPU)->allocate(bytes)), bytes);
  }
  EXPECT_EQ(pool.bytes(), 2 * 256);
}

constexpr auto kFake = c10::DeviceType::FPGA; // that torch has no memory of

/// Allocates on the current device, as that of CUDA does.
struct FakeAllocator : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto memory = c10::GetAllocator(at::kCPU)->allocate(bytes);
    memory.unsafe_set_device(c10::Device(kFake, c10::impl::FakeGuardImpl<kFake>::getDeviceIndex()));
    return memory;
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

TEST(BufferPool, AllocatesOnTheDeviceThatIsAskedFor) {
  static const c10::impl::DeviceGuardImplRegistrar registered(kFake, new c10::impl::FakeGuardImpl<kFake>());
  static FakeAllocator allocator;
  c10::SetAllocator(kFake, &allocator);
  c10::impl::FakeGuardImpl<kFake>::setDeviceIndex(0);
  BufferPool pool;
  EXPECT_EQ(pool.take(64, c10::Device(kFake, 3)).device(), c10::Device(kFake, 3));
  EXPECT_EQ(c10::impl::FakeGuardImpl<kFake>::getDeviceIndex(), 0);
}

TEST(PooledBuffer, ViewsAreValidAgainWithTheMemory) {
  const auto pool = std::make_shared<BufferPool>();
  PooledBuffer buffer(12, at::kFloat);
  EXPECT_FALSE(buffer.has_memory());
  buffer.take(pool);
  const auto view = buffer.view(2, {2, 5});
  view.fill_(3);
  buffer.release();
  if (kReadingFreedIsAnError) {
    for (const auto& freed : {view, buffer.tensor()}) {
      expect_contains(
          testing::error_text([&] { freed.sum(); }), "a gathered parameter is required while its values are there");
      EXPECT_ANY_THROW(freed.fill_(1));
    }
  }
  buffer.take(pool);
  buffer.tensor().fill_(4);
  EXPECT_EQ(view.sum().item<float>(), 40);
}

#ifdef WEFT_TEST_CUDA

TEST(BufferPool, MemoryOfADeviceGoesBackToItsAllocator) {
  const auto pool = std::make_shared<BufferPool>();
  PooledBuffer buffer(256, at::TensorOptions(at::kCUDA).dtype(at::kFloat));
  buffer.take(pool);
  const auto view = buffer.view(0, {4, 64}).fill_(2);
  EXPECT_EQ(view.sum().item<float>(), 512);
  EXPECT_EQ(view.device().index(), 0);
  buffer.release();
  EXPECT_EQ(pool->bytes(), 0);
  EXPECT_FALSE(buffer.has_memory());
  buffer.take(pool);
  buffer.tensor().fill_(3);
  EXPECT_EQ(view.sum().item<float>(), 768);
}

#endif

TEST(PooledBuffer, ViewsThatOutliveItKeepTheMemory) {
  const auto pool = std::make_shared<BufferPool>();
  at::Tensor view;
  {
    PooledBuffer buffer(4, at::kFloat);
    buffer.take(pool);
    buffer.tensor().fill_(7);
    view = buffer.view(1, {2});
  }
  EXPECT_EQ(view.sum().item<float>(), 14);
  EXPECT_EQ(pool->bytes(), 0);
}

} // namespace buffer_pool_test
} // namespace weft
