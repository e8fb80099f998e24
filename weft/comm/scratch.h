#pragma once

#include <ATen/core/Tensor.h>

#include <mutex>
#include <vector>

namespace weft {

/// Buffers for messages that must be packed: memory that was used before costs no page faults. A buffer is free again
/// when the tensor that was taken is gone.
class Scratch {
 public:
  /// More than `most_buffers` are allocated anew each time.
  explicit Scratch(size_t most_buffers = 8) : most_buffers_(most_buffers) {}

  /// A contiguous tensor with values of no meaning.
  at::Tensor take(c10::IntArrayRef sizes, const at::TensorOptions& options);

  /// How many bytes are kept.
  size_t bytes() const;

 private:
  /// Larger ones are allocated anew each time.
  static constexpr size_t kMostBytesEach = 64 << 20;

  size_t most_buffers_;
  mutable std::mutex mutex_;
  std::vector<at::Tensor> buffers_;
};

} // namespace weft
