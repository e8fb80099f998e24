#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>

#include <memory>
#include <mutex>
#include <vector>

namespace weft {

/// Memory that was given back and is taken again: memory that is used anew costs no page faults. It keeps as many buffers as
/// kMostFree; more are freed. Threads may use it at the same time.
///
/// It keeps memory of the CPU alone. The allocator of another device keeps what is freed by itself, and knows which stream may have it
/// when, and what a graph that was captured still uses.
class BufferPool {
 public:
  static constexpr size_t kMostFree = 2;

  at::DataPtr take(size_t bytes, c10::Device device);
  void give(at::DataPtr memory, size_t bytes);
  /// The bytes that are kept for later.
  size_t bytes() const;

 private:
  struct Free {
    at::DataPtr memory;
    size_t bytes;
  };
  mutable std::mutex mutex_;
  std::vector<Free> free_;
};

template <typename StorageImpl>
constexpr bool can_allow_access = requires(StorageImpl& storage) { storage.clear_data_ptr_access_error_msg_(); };

/// Whether reading a buffer without memory is an error. With torch 2.11, which cannot allow access to a storage again, it ends
/// the process.
constexpr bool kReadingFreedIsAnError = can_allow_access<c10::StorageImpl>;

/// A tensor of one dim whose memory comes from a pool and may go back to it while the tensor and its views live on: a view that
/// autograd has saved is valid again once the buffer has memory and its old values. See kReadingFreedIsAnError for what
/// reading one meanwhile is.
class PooledBuffer {
 public:
  /// Takes memory for `spare` elements more, so that a buffer of so many elements more can take it next.
  PooledBuffer(int64_t length, const at::TensorOptions& options, int64_t spare = 0);
  ~PooledBuffer();
  PooledBuffer(const PooledBuffer&) = delete;
  PooledBuffer& operator=(const PooledBuffer&) = delete;

  bool has_memory() const {
    return has_memory_;
  }
  /// Its values are those that the memory had before.
  void take(std::shared_ptr<BufferPool> pool);
  void release();

  const at::Tensor& tensor() const {
    return tensor_;
  }
  /// The elements [begin, begin + length), a tensor of its own to autograd.
  at::Tensor view(int64_t begin, c10::IntArrayRef sizes) const;

 private:
  std::shared_ptr<BufferPool> pool_;
  at::Tensor tensor_;
  bool has_memory_ = false;
};

} // namespace weft
