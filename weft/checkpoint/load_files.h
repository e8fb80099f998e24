#pragma once

#include "weft/checkpoint/local_state.h"
#include "weft/checkpoint/read_files.h"

namespace weft {

struct LoadOptions {
  /// Compare checksums. Each rank verifies the parts that it reads completely; the others are divided among the ranks of the
  /// tensor's mesh, which read them once more.
  bool verify = true;
  /// Where several ranks hold the same values, one of them reads these and sends them to the others: for slow file systems.
  /// All ranks of the meshes must then load the same tensors.
  bool broadcast = false;
  int64_t threads = 0; // that read; 0: as many as there are processors, up to four
};

/// Fills local tensors from stored ones, whatever layout those were saved in: each rank reads what its own layout wants, converted to
/// the dtype of its tensor. Nothing is communicated without `broadcast`. Raises, before anything is read, for a tensor that is
/// not stored, has another shape, or cannot have its values.
ReadReport load_files(
    const StoredTensors& stored,
    const std::map<std::string, LocalTensor>& tensors,
    const LoadOptions& options);

} // namespace weft
