#pragma once

#include "weft/checkpoint/stored_tensors.h"

#include <optional>

namespace weft {

/// A box of elements of one stored part that goes to one box of a block: `sizes` elements per dim, from `begin` on in the
/// file, where they have `strides`, to `target_offset` in the block.
struct ReadBox {
  size_t part = 0; // in StoredTensor::parts
  uint64_t begin = 0;
  c10::DimVector sizes = {};
  c10::DimVector strides = {};
  c10::DimVector target_offset = {};
};

/// What to read of a stored tensor for the elements of `wanted`: one box for each intersection of runs, ordered by file and
/// by position. Pure: it depends on the arguments alone, so that any rank can say what any other reads.
///
///   // [4, 4] in two parts of two rows; a rank wants the last two columns
///   plan_reads(stored, {{{0, 4}}, {{2, 2}}})   // a box [2, 2] of each part
std::vector<ReadBox> plan_reads(const StoredTensor& stored, const BlockIndex& wanted);

/// A range of consecutive bytes of a file, of which every `stride` bytes the first `bytes` are wanted, `count` times.
/// A box as such ranges, in the order of the file; dims that are consecutive in the file are joined.
struct ByteRows {
  uint64_t row_bytes = 0;
  /// The dims around a row, the outermost first: how often, how far apart in the file in bytes, and which dim of the box.
  struct Dim {
    int64_t count;
    int64_t file_stride;
    int64_t target_stride;
  };
  c10::SmallVector<Dim, 4> dims = {};
};

/// The box as rows of consecutive bytes that are consecutive in the target as well, whose strides (in elements) are given.
ByteRows byte_rows(const ReadBox& box, c10::IntArrayRef target_strides, size_t element_bytes);

/// The bytes of the elements of a box, and from the first one in the file to the end of the last one.
uint64_t box_bytes(const ReadBox& box, uint64_t element_bytes);
uint64_t box_extent(const ReadBox& box, uint64_t element_bytes);
/// The outermost dim of more than one index in the file; none for one element.
std::optional<size_t> outermost_dim(const ReadBox& box);
/// `length` indices of a dim of a box, from `from` on.
ReadBox narrowed_box(const ReadBox& box, size_t dim, int64_t from, int64_t length, uint64_t element_bytes);

} // namespace weft
