#pragma once

#include "weft/comm/group.h"

#include <functional>

namespace weft {

/// An all-gather and a reduce-scatter chunk by chunk, so that the caller works on one chunk while others are under way.
///
///   gather_in_chunks(group, shard, {.dim = 0, .size = 8, .chunks = 2}, {}, [&](const Chunk& chunk, const at::Tensor& rows) {
///     at::mm_out(product.narrow(0, chunk.begin, chunk.length), rows, other);
///   });
///
/// Chunks go round a ring of the members, so that between hosts each is sent once, and the bytes are those of the collective.
/// Few chunks are under way at once, so that the buffers are those of some chunks whatever their number. The order of the
/// chunks depends on the member and on nothing else. All members make the same calls with the same `ChunkedDim`.

/// How a tensor is cut along one of its dims: `size` indices over the members as torch.chunk cuts, and each member's part
/// again into `chunks`. Parts and chunks may be empty; an empty chunk takes no call and no message.
struct ChunkedDim {
  int64_t dim;
  int64_t size;
  int64_t chunks;
};

/// Indices of the whole along the dim, all of one member's part.
struct Chunk {
  int64_t member;
  int64_t begin;
  int64_t length;
};

/// What nobody waits for is worked on in few calls, since each reads all of the other operand again; in several, since the
/// threads that move bytes get their turn between them.
constexpr int64_t kOwnBlocks = 4;

/// All of a member's part.
Chunk part_of(const ChunkedDim& cut, int64_t members, int64_t member);
/// A part cut into `count`, without those that are empty.
std::vector<Chunk> chunks_of(const Chunk& part, int64_t count);

/// The sizes but for that of one dim.
c10::DimVector with_size(c10::IntArrayRef sizes, int64_t dim, int64_t size);

/// The values of a chunk, which may be used during the call alone and need not be contiguous.
using ConsumeChunk = std::function<void(const Chunk& chunk, const at::Tensor& values)>;
/// Writes this member's addend of a chunk to `target`, or adds it to what is there.
using ProduceChunk = std::function<void(const Chunk& chunk, const at::Tensor& target, bool adds)>;

/// Every index of the whole is given to `consume` once: own ones first, and whatever is passed on to the next member is so
/// before it is consumed. `gathered`, unless undefined, becomes the whole.
void gather_in_chunks(
    Group& group,
    const at::Tensor& shard,
    const ChunkedDim& cut,
    const at::Tensor& gathered,
    const ConsumeChunk& consume);

/// `output` becomes this member's part of the sum, or average, of everybody's addends. Sums are passed on from member to
/// member, so each part is added up in the order of the members behind its own, which comes last.
void scatter_in_chunks(
    Group& group,
    const at::Tensor& output,
    const ChunkedDim& cut,
    ReduceOp op,
    const ProduceChunk& produce);

} // namespace weft
