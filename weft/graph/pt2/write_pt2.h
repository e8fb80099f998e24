#pragma once

#include "weft/graph/ir/program.h"

#include <functional>

namespace weft::graph {

struct WriteOptions {
  /// Gives a tensor that the program has on `meta`, when its turn comes. What it gives is let go of once it is written.
  std::function<at::Tensor(const std::string& name)> make_tensor = {};
  /// Is told after every tensor how many bytes of tensors are written.
  std::function<void(int64_t bytes)> on_progress = {};
};

/// Writes a program that has no layouts, whole or of a rank, as a file that torch.export.load takes. Tensors are written
/// one by one, so that of those in a mapped file one at a time is in memory. A file of this name is replaced at the end,
/// once all is written.
///
///   write_pt2(localize(program, rank), "out/rank0.pt2");
void write_pt2(const Program& program, const std::string& path, const WriteOptions& options = {});

} // namespace weft::graph
