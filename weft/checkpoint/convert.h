#pragma once

#include "weft/checkpoint/stored_tensors.h"

#include <functional>

namespace weft {

struct ConvertOptions {
  /// Of a checkpoint's tensors those whose names begin so, without it: "model." of what weft.save({"model": model}, ...) wrote.
  std::string prefix = {};
  /// A file has at most this many bytes, unless it holds one larger tensor; as much is in memory.
  uint64_t max_file_bytes = uint64_t{5} << 30;
  /// Called with the progress, from 0 to 1. An exception ends the work.
  std::function<void(double done)> on_progress = nullptr;
};

/// Writes a checkpoint's tensors as Hugging Face's libraries read them: `model.safetensors`, or several files with an index. The
/// folder must have no safetensors files; a config.json that is there stays. Returns the number of tensors.
int64_t export_huggingface(const StoredTensors& stored, const std::string& folder, const ConvertOptions& options);

/// Writes stored tensors as a checkpoint of one rank; the names of the result begin with the prefix.
int64_t import_tensors(const StoredTensors& stored, const std::string& folder, const ConvertOptions& options);

} // namespace weft
