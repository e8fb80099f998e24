#pragma once

#include <ATen/core/Tensor.h>

#include <mutex>
#include <vector>

namespace weft {

/// Reusable buffers for messages that must be packed: reused memory causes no page faults. A buffer is free again when
/// the tensor that take() returned is gone.
class Scratch {
 public:
  /// Beyond `most_buffers` buffers, every take() allocates.
  explicit Scratch(size_t most_buffers = 8) : most_buffers_(most_buffers) {}

  /// A contiguous, uninitialized tensor.
  at::Tensor take(c10::IntArrayRef sizes, const at::TensorOptions& options);

  /// The number of bytes that are kept.
  size_t bytes() const;

 private:
  /// Larger buffers are allocated at every take().
  static constexpr size_t kMostBytesEach = 64 << 20;

  size_t most_buffers_;
  mutable std::mutex mutex_;
  std::vector<at::Tensor> buffers_;
};

} // namespace weft
