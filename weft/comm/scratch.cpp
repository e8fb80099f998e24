#include "weft/comm/scratch.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <numeric>

namespace weft {

at::Tensor Scratch::take(c10::IntArrayRef sizes, const at::TensorOptions& options) {
  const auto numel = std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
  const auto bytes = static_cast<size_t>(numel) * options.dtype().itemsize();
  if (bytes == 0 || bytes > kMostBytesEach) {
    return at::empty(sizes, options);
  }
  const std::lock_guard lock(mutex_);
  at::Tensor* best = nullptr;
  for (auto& buffer : buffers_) {
    const bool is_free = buffer.storage().use_count() == 1;
    const bool fits = buffer.nbytes() >= bytes && buffer.device() == options.device();
    if (is_free && fits && (best == nullptr || buffer.nbytes() < best->nbytes())) {
      best = &buffer;
    }
  }
  if (best == nullptr) {
    if (buffers_.size() == most_buffers_) {
      const auto smallest = std::min_element(
          buffers_.begin(), buffers_.end(), [](const auto& a, const auto& b) { return a.nbytes() < b.nbytes(); });
      buffers_.erase(smallest);
    }
    buffers_.push_back(at::empty({static_cast<int64_t>(bytes)}, options.dtype(at::kByte)));
    best = &buffers_.back();
  }
  return best->narrow(0, 0, static_cast<int64_t>(bytes)).view(c10::typeMetaToScalarType(options.dtype())).view(sizes);
}

size_t Scratch::bytes() const {
  const std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const auto& buffer : buffers_) {
    total += buffer.nbytes();
  }
  return total;
}

} // namespace weft
