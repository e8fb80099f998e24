#pragma once

#include "weft/checkpoint/stored_tensors.h"

namespace weft {

/// The file that makes a folder a checkpoint: it says which tensors there are and which file holds which of their elements.
/// docs/checkpoints.md describes it.
///
///   {"format": "weft checkpoint", "version": 1, "saved": 1700000000000000000,
///    "files": [{"name": "1c291ca3_rank0_1.safetensors", "bytes": 2048}, ...],
///    "tensors": {"layer.weight": {"dtype": "f32", "shape": [8, 16],
///                                 "parts": [{"file": 0, "begin": 128, "index": ["0:4", "0:16"],
///                                 "chunk": 65536, "crc32c": ["e3069283"]}]}},
///    "values": {"step": 7}, "checksum": "cbf43926"}
constexpr const char* kManifestFile = "checkpoint.json";

/// `saved` is the time of saving, in nanoseconds since 1970, by which checkpoints are ordered.
std::string manifest_text(const StoredTensors& stored, int64_t saved);

/// The manifest of a folder, from its text; errors call it `name`. Raises for a text that was changed, for a name of a file
/// outside of the folder, and for tensors whose parts do not have each of their elements once.
struct ReadManifest {
  StoredTensors stored;
  int64_t saved = 0;
};
ReadManifest parse_manifest(std::string_view text, const std::string& folder, const std::string& name);

/// The manifest of a checkpoint's folder, with every name of tensors that have several. Errors begin with [where].
ReadManifest load_manifest(const std::string& folder, const char* where);

/// Whether a name is one of a file inside of a folder: no other folder, and no empty text.
bool is_file_name(std::string_view name);

} // namespace weft
