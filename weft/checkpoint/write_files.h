#pragma once

#include "weft/checkpoint/stored_tensors.h"

#include <ATen/core/Tensor.h>

namespace weft {

/// A tensor that is written to a file of this rank.
struct WriteSource {
  std::string name; // its key in the file
  at::Tensor tensor;
};

/// Where a tensor was written; of one without elements there are no checksums.
struct WrittenTensor {
  size_t file = 0; // in WrittenFiles::files
  uint64_t begin = 0;
  std::shared_ptr<const ChunkChecksums> checksums = {};
};

struct WrittenFiles {
  std::vector<StoredFile> files;
  std::vector<WrittenTensor> tensors; // in the order of the sources
};

struct WriteSettings {
  std::string folder = {};
  std::string prefix = {}; // of the names of the files: <prefix>_1.safetensors, <prefix>_2.safetensors, ...
  int64_t first_number = 1;
  uint64_t max_file_bytes = uint64_t{5} << 30;
  int64_t threads = 0; // 0: as many as there are processors, up to two
};

/// Writes tensors to safetensors files of at most max_file_bytes; a larger tensor has a file of its own, and so have blocks of one
/// tensor, which have the same name. A dtype that the format
/// lacks is stored as the numbers that it is made of, with one more dim (complex doubles as doubles [..., 2]). Each file has the name
/// <name>.part until all of it is on the disk. An error removes what was written.
WrittenFiles write_tensors(c10::ArrayRef<WriteSource> sources, const WriteSettings& settings);

/// Makes a folder and those around it that there are not, so that they outlive a failure of power. Errors begin with [where].
void make_synced_folder(const std::string& folder, const char* where = "save");

/// Makes the names of files in a folder outlive a failure of power.
void sync_folder(const std::string& folder);

} // namespace weft
