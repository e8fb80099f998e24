#pragma once

#include "weft/checkpoint/read_plan.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// A local tensor to be filled from a stored one.
struct ReadTarget {
  std::string name = {}; // in errors
  const StoredTensor* stored = nullptr;
  BlockIndex wanted = {}; // the indices that `local` has
  at::Tensor local = {};
  /// How many ranks read the same indices, and this rank's number among them: they divide what is verified between them.
  int64_t replica = 0;
  int64_t replicas = 1;
};

/// What an item has of a chunk of checksums that this rank verifies.
struct ChunkRange {
  uint64_t number = 0;
  uint64_t begin = 0; // in the file
  uint64_t end = 0;
  uint32_t checksum = 0; // when the item has been read
};

/// What one thread reads at once.
struct ReadItem {
  enum class Kind : uint8_t {
    Consecutive, // the box is a range of the file
    Rows,        // rows of the box, and on the way the bytes between them that are verified
    Verification // a range that is read for its checksum alone
  };

  size_t target = 0;
  Kind kind = Kind::Rows;
  ReadBox box = {};
  uint64_t begin = 0; // of the first byte in the file
  uint64_t bytes = 0; // from there to the end of the last one
  /// What is verified, in the order of the file. Of rows this may begin before them and end after them.
  std::vector<ChunkRange> chunks = {};
};

constexpr uint64_t kItemBytes = 8 << 20;    // of an item that needs no memory of its own
constexpr uint64_t kScratchBytes = 1 << 20; // of the memory that one thread uses; it is used twice at most
constexpr uint64_t kSmallRow = 4096;        // below this, a call per row costs more than the bytes between the rows

/// The items of a target, the one with this number, which have all elements that it wants. Checksums are of chunks of the stored
/// parts. A chunk that this rank reads completely is verified on the way. Any other chunk is read completely by one rank (ChunkChoice),
/// whose rows are copied from it: by the items before and after each boundary between them, so that no byte is read twice. Only where
/// rows of several items alternate, as those of strided shards do, chunks are items of their own.
std::vector<ReadItem> plan_items(const ReadTarget& target, size_t number, bool verify);

/// Strides that a tensor of the box's shape has if its dims follow each other in memory as they do in the file.
c10::DimVector packed_strides(const ReadBox& box);
/// Whether the elements go to the local tensor without a tensor in between.
bool is_direct(const ReadBox& box, const ReadTarget& target);

} // namespace weft
