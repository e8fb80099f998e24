#pragma once

#include "weft/checkpoint/open_files.h"
#include "weft/checkpoint/read_items.h"

namespace weft {

/// Where a thread puts what it does not read straight into a tensor.
struct ThreadMemory {
  std::vector<char> scratch = {};
  OpenFiles::Window window = {};
};

constexpr uint64_t kReadStep = 256 << 10; // stay in the cache between the checksum and what follows

/// Reads the rows of an item to `to`, where their dims have the target strides, and the chunks of the item for their checksums. What is
/// verified is read once, by steps: rows are copied while these are in the cache. Other rows are copied from mapped pages where they
/// are close to each other, and read by calls elsewhere. Returns the bytes that it has read.
uint64_t read_rows(OpenFiles& files, size_t file, ReadItem& item, const ByteRows& rows, char* to, ThreadMemory& memory);

/// Reads the chunks of an item for their checksums alone.
void read_chunks(OpenFiles& files, size_t file, ReadItem& item, ThreadMemory& memory);

} // namespace weft
