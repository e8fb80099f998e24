#pragma once

#include "weft/comm/group.h"

#include <functional>

namespace weft {

/// An all-gather and a reduce-scatter chunk by chunk, so that the caller computes with one chunk while others are sent.
///
///   gather_in_chunks(group, shard, {.dim = 0, .size = 8, .chunks = 2}, {}, [&](const Chunk& chunk, const at::Tensor& rows) {
///     at::mm_out(product.narrow(0, chunk.begin, chunk.length), rows, other);
///   });
///
/// Members pass chunks to the next member of a ring, so that between hosts each chunk is sent once, and as many bytes
/// are sent as by the collective. Few chunks are sent at once, so that the size of the buffers does not depend on the
/// number of chunks. The order of the chunks depends on the member only. All members make the same calls with the same
/// `ChunkedDim`.

/// How a tensor is divided along one of its dims: `size` indices over the members as by torch.chunk, and each member's
/// shard again into `chunks`. Shards and chunks may be empty; an empty chunk takes no call and no message.
struct ChunkedDim {
  int64_t dim;
  int64_t size;
  int64_t chunks;
};

/// Indices of the global tensor along the dim, all within the shard of one member.
struct Chunk {
  int64_t member;
  int64_t begin;
  int64_t length;
};

/// Into how many blocks a member divides its own shard, for which no other member waits. Few blocks, because the call
/// for each reads the full other operand again; more than one, because the threads that send get the core between the
/// calls.
constexpr int64_t kOwnBlocks = 4;

/// The full shard of a member.
Chunk member_shard(const ChunkedDim& chunked, int64_t members, int64_t member);
/// A shard divided into `count` chunks, without those that are empty.
std::vector<Chunk> chunks_of(const Chunk& shard, int64_t count);

/// The sizes with that of one dim replaced.
c10::DimVector with_size(c10::IntArrayRef sizes, int64_t dim, int64_t size);

/// Gets the values of a chunk, which are valid only during the call and need not be contiguous.
using ConsumeChunk = std::function<void(const Chunk& chunk, const at::Tensor& values)>;
/// Writes this member's term of a chunk to `target`, or adds it to the values there.
using ProduceChunk = std::function<void(const Chunk& chunk, const at::Tensor& target, bool adds)>;

/// Gives every index of the global tensor to `consume` once, beginning with the own shard. A chunk that is passed on to
/// the next member is sent before it is consumed. `gathered`, unless undefined, becomes the global tensor.
void gather_in_chunks(
    Group& group,
    const at::Tensor& shard,
    const ChunkedDim& chunked,
    const at::Tensor& gathered,
    const ConsumeChunk& consume);

/// `output` becomes this member's shard of the sum, or average, of all members' terms. Sums are passed on from member
/// to member: the shard of member r is added up in the order r + 1, r + 2, ..., r.
void scatter_in_chunks(
    Group& group,
    const at::Tensor& output,
    const ChunkedDim& chunked,
    ReduceOp op,
    const ProduceChunk& produce);

} // namespace weft
