#pragma once

#include "weft/checkpoint/local_state.h"
#include "weft/checkpoint/rank_texts.h"

namespace weft {

struct SaveOptions {
  /// A file has at most this many bytes of tensors; a larger local tensor is divided.
  uint64_t max_file_bytes = uint64_t{5} << 30;
  /// Afterwards deletes the oldest complete checkpoints whose folders have the same name up to a number at the end (step_100,
  /// step_200), but for this many; 0 deletes none.
  int64_t keep_last = 0;
};

/// Writes a checkpoint: each rank its own files, then rank 0 the manifest, whose renaming makes the folder a checkpoint. Every rank
/// of `ranks` calls it, with its own local tensors; ranks may have different tensors. An error on one rank is raised on all. Until the
/// manifest is there, an older checkpoint in the same folder stays readable; its files are removed afterwards.
void save_files(const LocalState& state, const std::string& folder, const RankTexts& ranks, const SaveOptions& options);

} // namespace weft
