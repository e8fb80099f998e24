#pragma once

#include "weft/graph/pt2/write_pt2.h"

namespace weft::graph {

/// Receives a record's name and bytes.
using WriteRecord = std::function<void(const std::string& name, const void* data, size_t size)>;

/// Writes the program's tensors and their metadata. One tensor at a time is in memory; pages of a mapped file are
/// released after writing. Tensors that share memory are written once.
void write_weights(
    const Program& program,
    const std::string& model,
    const WriteOptions& options,
    const WriteRecord& write);

} // namespace weft::graph
