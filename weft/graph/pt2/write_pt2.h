#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// Writes a program that has no layouts, whole or of a rank, as a file that torch.export.load takes. Tensors are written
/// one by one, so that of those in a mapped file one at a time is in memory. A file of this name is replaced at the end,
/// once all is written.
///
///   write_pt2(localize(program, rank), "out/rank0.pt2");
void write_pt2(const Program& program, const std::string& path);

} // namespace weft::graph
