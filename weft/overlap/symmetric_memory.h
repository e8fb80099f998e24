#pragma once

#include "weft/comm/world/backend_channel.h"
#include "weft/overlap/chunk_pipeline.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#include <chrono>
#include <memory>

namespace weft {

/// Memory on the devices of a group's members that every member reads directly, by torch's symmetric memory, and the
/// chunk pipelines on it: chunks are copied from the members on a stream of their own, while the current stream
/// computes.
///
/// A member signals the others when it has written its memory, and they signal back when they have read it. The next
/// call waits for these signals on the stream before it writes. Nothing blocks the host. If a member does not answer
/// within the timeout, the others get a CUDA error, after which their processes cannot use the device any more.
class SymmetricMemory {
 public:
  /// nullptr if the members are on several hosts, share a device without being allowed to
  /// (TORCH_SYMM_MEM_ALLOW_OVERLAPPING_DEVICES=1), or cannot reach each other's memory. All members call it together
  /// and get the same answer.
  static std::unique_ptr<SymmetricMemory> make(
      const c10::intrusive_ptr<c10d::Store>& store,
      int64_t rank,
      int64_t size,
      c10::Device device,
      std::chrono::milliseconds timeout);

  /// The memory of a group, made at the first call, which all members make together; nullptr as above.
  static SymmetricMemory* of(BackendGroup& group, c10::Device device);

  ~SymmetricMemory();
  SymmetricMemory(const SymmetricMemory&) = delete;
  SymmetricMemory& operator=(const SymmetricMemory&) = delete;

  /// As gather_in_chunks and scatter_in_chunks, of sums. Work on chunks is put on the current stream.
  void gather(
      const at::Tensor& shard,
      const ChunkedDim& chunked,
      const at::Tensor& gathered,
      const ConsumeChunk& consume);
  void scatter(const at::Tensor& output, const ChunkedDim& chunked, const ProduceChunk& produce);

 private:
  using Handle = c10::intrusive_ptr<c10d::symmetric_memory::SymmetricMemory>;

  SymmetricMemory(
      const c10::intrusive_ptr<c10d::Store>& store,
      int64_t rank,
      int64_t size,
      c10::Device device,
      std::chrono::milliseconds timeout);

  /// Reserves as many bytes on every member, and waits on the stream until all members have read the former values.
  void prepare(int64_t bytes);
  void reserve(int64_t bytes);
  /// The place, in the memory of `member`, of the shard of member `owner`. All dims but the chunked one are those of
  /// `like`.
  at::Tensor buffer(int64_t member, const at::Tensor& like, const ChunkedDim& chunked, int64_t owner, int64_t slot = 0);

  c10::intrusive_ptr<c10d::ProcessGroup> group_; // without a backend: torch finds the members' store by its name
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
