#pragma once

#include "weft/graph/pt2/write_pt2.h"

namespace weft::graph {

/// Takes a record's name and bytes.
using WriteRecord = std::function<void(const std::string& name, const void* data, size_t size)>;

/// The program's tensors and what is stated of them. One tensor at a time is in memory; those of a mapped file are given
/// back to it. Tensors of the same memory are written once.
void write_weights(
    const Program& program,
    const std::string& model,
    const WriteOptions& options,
    const WriteRecord& write);

} // namespace weft::graph
