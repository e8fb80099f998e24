#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#include <chrono>
#include <functional>
#include <memory>

namespace weft {

/// Memory on the devices of a group's members that every member reads directly, by torch's symmetric memory, and the chunk
/// pipelines on it: chunks are copied from the members on a stream of their own, while the current stream computes.
///
/// What a member has written it signals to the others; that they have read it they signal back, and the next call waits
/// for that on the stream before it writes. Nothing blocks the host. A member that does not answer within the timeout
/// ends in a CUDA error, after which the device cannot be used by this process any more.
class SymmetricMemory {
 public:
  /// nullptr where the members are on several hosts, share a device without being allowed to
  /// (TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES=1), or cannot reach each other's memory. All members call it together and
  /// get the same answer.
  static std::unique_ptr<SymmetricMemory> make(
      const c10::intrusive_ptr<c10d::Store>& store,
      int64_t rank,
      int64_t size,
      c10::Device device,
      std::chrono::milliseconds timeout);

  /// What a chunk is given to, on the current stream: where it starts along dim 0 of the whole, and its rows.
  using Consume = std::function<void(int64_t start, const at::Tensor& rows)>;
  /// Everybody's shards (contiguous, `lengths` along dim 0), chunk by chunk, this member's own first. They are put together
  /// in `whole`, where this member's own part is written only if `keeps_own`.
  void gather(
      const at::Tensor& shard,
      c10::IntArrayRef lengths,
      int64_t chunks,
      const at::Tensor& whole,
      bool keeps_own,
      const Consume& consume);

  /// Writes the rows that start at `start` of this member's whole tensor, on the current stream.
  using Produce = std::function<void(int64_t start, const at::Tensor& rows)>;
  /// The sum of everybody's pieces for this member, or the average; `lengths` as above.
  at::Tensor scatter(
      c10::IntArrayRef lengths,
      c10::IntArrayRef row_sizes,
      int64_t chunks,
      const at::TensorOptions& options,
      bool averages,
      const Produce& produce);

 private:
  using Handle = c10::intrusive_ptr<c10d::symmetric_memory::SymmetricMemory>;

  SymmetricMemory(std::string name, int64_t rank, int64_t size, c10::Device device, std::chrono::milliseconds timeout);

  /// Makes room for as many bytes on every member, and waits on the stream until all have read what was there.
  void prepare(int64_t bytes);
  void reserve(int64_t bytes);
  at::Tensor buffer(int64_t member, int64_t start, c10::IntArrayRef sizes, c10::ScalarType dtype);

  std::string name_;
  int64_t rank_;
  int64_t size_;
  c10::Device device_;
  size_t timeout_ms_;
  c10::Stream side_;
  at::Tensor memory_; // bytes
  Handle handle_;
  bool is_unread_ = false;
};

} // namespace weft
