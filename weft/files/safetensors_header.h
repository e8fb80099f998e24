#pragma once

#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// What a safetensors file says of its tensors. Such a file has the length of its header in 8 bytes, the header in JSON,
/// and the bytes of the tensors one after the other.
struct SafetensorsEntry {
  std::string name;
  c10::ScalarType dtype;
  std::vector<int64_t> sizes;
  uint64_t begin = 0; // in the file
  uint64_t bytes = 0;
  std::string unknown_dtype = {}; // if `dtype` is undefined, because it is one of those that torch lacks
};

/// Reads the header from the first bytes of a file of `file_bytes` bytes; `start` must hold all of the header. Errors begin
/// with "[where] path: " and name the tensor. Every size and offset is checked: the tensors fill the file after the
/// header without gaps. The entries are ordered by name.
std::vector<SafetensorsEntry> parse_safetensors_header(
    std::string_view start,
    uint64_t file_bytes,
    const std::string& where,
    const std::string& path);

/// The header of a file, of which nothing else is read. Raises for dtypes that torch lacks only if they are not allowed.
std::vector<SafetensorsEntry> read_safetensors_header(
    const std::string& path,
    const std::string& where,
    bool allows_unknown_dtypes = false);

/// The first bytes of a file of these tensors, up to where the data of the first one begins. Sets where each begins; they
/// follow each other in this order. Larger elements should come first, so that all are aligned.
std::string make_safetensors_header(
    std::vector<SafetensorsEntry>& entries,
    const std::map<std::string, std::string>& metadata,
    const std::string& where);

/// Whether a header can name this dtype: not complex numbers of two doubles, say.
bool has_safetensors_dtype(c10::ScalarType dtype);

} // namespace weft
