#pragma once

#include "weft/checkpoint/stored_tensors.h"

#include <set>
#include <string_view>

namespace weft {

/// The tensors of a folder as Hugging Face's libraries write it: those that `model.safetensors.index.json` lists, or else those of
/// `model.safetensors`, or of the one safetensors file there is. A path of a safetensors file works too. Only headers are read. Raises
/// for an index that names a file outside of the folder, or a tensor that its file does not have.
StoredTensors read_huggingface(const std::string& folder);

/// Whether a folder looks like one.
bool is_huggingface(const std::string& folder);

/// The tensors of each file, by the text of an index; errors call it `path`.
std::map<std::string, std::set<std::string>> parse_huggingface_index(std::string_view text, const std::string& path);

/// The text of an index: which file of a folder has which tensor.
std::string huggingface_index(const std::map<std::string, std::string>& file_of, uint64_t total_bytes);
constexpr const char* kHuggingFaceIndex = "model.safetensors.index.json";
constexpr const char* kHuggingFaceFile = "model.safetensors";

} // namespace weft
