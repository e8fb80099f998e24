#pragma once

#include "weft/core/shard_math.h"

#include <c10/core/ScalarType.h>
#include <c10/util/SmallVector.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace weft {

/// The global indices that a block of a tensor has, as runs per tensor dim: the block is made of all their combinations,
/// in the order of the runs. What a rank holds of any layout is such a block (local_runs).
using BlockIndex = c10::SmallVector<Runs, 4>;

/// The block that the rank at `coordinate` holds of a tensor.
BlockIndex block_of(
    c10::IntArrayRef sizes,
    const Layout& layout,
    c10::IntArrayRef mesh_shape,
    c10::IntArrayRef coordinate);
/// The block of the global tensor: all indices.
BlockIndex full_block(c10::IntArrayRef sizes);
/// The lengths of a block per dim, and its number of elements.
c10::DimVector block_shape(const BlockIndex& index);
int64_t block_numel(const BlockIndex& index);

/// The checksums (crc32c) of a range of a file: one for each `chunk_bytes` of it, the last one for the rest. A reader that needs a
/// few rows of a large range verifies the chunks that have these rows, and not all of the range.
struct ChunkChecksums {
  uint64_t begin = 0; // in the file
  uint64_t bytes = 0;
  uint64_t chunk_bytes = 0;
  std::vector<uint32_t> values = {};
};
/// The bytes of the chunks of a range: at most 128 chunks, of 64 KiB or more.
uint64_t chunk_bytes_of(uint64_t bytes);

/// A block of a tensor inside of a file.
struct StoredPart {
  size_t file = 0;    // in StoredTensors::files
  uint64_t begin = 0; // of its first element, in bytes of the file
  BlockIndex index = {};
  c10::DimVector strides = {}; // in the file, in elements; other than contiguous where a file holds a transposed tensor
  /// Of a range that has the block; none where nothing is known.
  std::shared_ptr<const ChunkChecksums> checksums = {};
};

/// A tensor inside of files: its parts have every element once.
struct StoredTensor {
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  c10::DimVector sizes = {};
  std::vector<StoredPart> parts = {};
};

struct StoredFile {
  std::string name; // inside of the folder
  uint64_t bytes = 0;
};

/// Where all tensors of a folder are: of a checkpoint (manifest.h), or of a folder that Hugging Face's libraries wrote
/// (huggingface.h).
struct StoredTensors {
  std::string folder = {};
  std::vector<StoredFile> files = {};
  std::map<std::string, StoredTensor> tensors = {};
  std::map<std::string, std::string> values = {};     // the JSON text of each value that is no tensor
  std::map<std::string, std::string> unreadable = {}; // tensors of dtypes that torch lacks: the name of the dtype

  std::string path_of(size_t file) const {
    return folder + "/" + files[file].name;
  }
};

} // namespace weft
