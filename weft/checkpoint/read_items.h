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

/// What one thread reads at once.
struct ReadItem {
  enum class Kind : uint8_t {
    Consecutive, // the box is a range of the file
    Rows,        // rows of the box, read one by one or a few together
    Span,        // a range of the file around the rows of the box; together such ranges are a chunk of checksums
    Verification // a range that is read for its checksum alone
  };

  size_t target = 0;
  Kind kind = Kind::Rows;
  ReadBox box = {};
  uint64_t begin = 0; // of the range in the file, unless the kind is Rows
  uint64_t bytes = 0;
  /// Of the range, one for each chunk of checksums in it.
  bool has_checksums = false;
  std::vector<uint32_t> checksums = {};
};

constexpr uint64_t kItemBytes = 8 << 20;    // of an item that needs no memory of its own
constexpr uint64_t kScratchBytes = 1 << 20; // of the memory that one thread uses; it is used twice at most
constexpr uint64_t kSpanBytes = 4 << 20;    // of a range around rows
constexpr uint64_t kSmallRow = 4096;        // below this, a call per row costs more than the bytes between the rows

/// The items of a target, the one with this number, which have all elements that it wants. Checksums are of chunks of the stored
/// parts. A chunk that this rank reads completely is verified on the way. Any other chunk is read completely by one rank: by the one
/// that wants a certain element of the chunk, so that no rank has to know what the others want, and each chunk of which any rank
/// wants elements is verified by at least one.
std::vector<ReadItem> plan_items(const ReadTarget& target, size_t number, bool verify);

/// Strides that a tensor of the box's shape has if its dims follow each other in memory as they do in the file.
c10::DimVector packed_strides(const ReadBox& box);
/// Whether the elements go to the local tensor without a tensor in between.
bool is_direct(const ReadBox& box, const ReadTarget& target);

} // namespace weft
