#pragma once

#include "weft/comm/world/backend_channel.h"
#include "weft/overlap/chunk_pipeline.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/symm_mem/SymmetricMemory.hpp>

#include <chrono>
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

  /// That of a group, made at the first call, which all members make together; nullptr where there can be none.
  static SymmetricMemory* of(BackendGroup& group, c10::Device device);

  ~SymmetricMemory();
  SymmetricMemory(const SymmetricMemory&) = delete;
  SymmetricMemory& operator=(const SymmetricMemory&) = delete;

  /// As gather_in_chunks and scatter_in_chunks, of sums. Work on chunks is put on the current stream.
  void gather(const at::Tensor& shard, const ChunkedDim& cut, const at::Tensor& gathered, const ConsumeChunk& consume);
  void scatter(const at::Tensor& output, const ChunkedDim& cut, const ProduceChunk& produce);

 private:
  using Handle = c10::intrusive_ptr<c10d::symmetric_memory::SymmetricMemory>;

  SymmetricMemory(
      const c10::intrusive_ptr<c10d::Store>& store,
      int64_t rank,
      int64_t size,
      c10::Device device,
      std::chrono::milliseconds timeout);

  /// Makes room for as many bytes on every member, and waits on the stream until all have read what was there.
  void prepare(int64_t bytes);
  void reserve(int64_t bytes);
  /// The part that belongs to member `part` of a tensor like `like` along other dims, in `member`s memory.
  at::Tensor buffer(int64_t member, const at::Tensor& like, const ChunkedDim& cut, int64_t part, int64_t slot = 0);

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
