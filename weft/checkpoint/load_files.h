#pragma once

#include "weft/checkpoint/local_state.h"
#include "weft/checkpoint/rank_texts.h"
#include "weft/checkpoint/read_files.h"

namespace weft {

struct LoadOptions {
  /// Compare checksums. Each rank verifies the chunks that it reads completely; each other chunk is read once more, by one of the ranks
  /// that want elements of it.
  bool verify = true;
  /// Where several ranks hold the same values, one of them reads these and sends them to the others: for slow file systems. All
  /// ranks of the world then load together, and those of a tensor's mesh the same tensors. An error of one rank is raised on all.
  bool broadcast = false;
  int64_t threads = 0; // that read; 0: as many as there are processors, up to four
};

/// Fills local tensors from stored ones, whatever layout those were saved in: each rank reads what its own layout wants, converted to
/// the dtype of its tensor. Nothing is communicated without `broadcast`, which uses `ranks`, those of the world. Raises, before
/// anything is read, for a tensor that is not stored, has another shape, or cannot have its values.
ReadReport load_files(
    const StoredTensors& stored,
    const std::map<std::string, LocalTensor>& tensors,
    const LoadOptions& options,
    const RankTexts& ranks = RankTexts(DeviceMesh()));

} // namespace weft
