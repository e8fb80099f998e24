#pragma once

#include "weft/graph/ir/program.h"

#include <functional>

namespace weft::graph {

struct WriteOptions {
  /// Returns a tensor that is on `meta` in the program, when it is about to be written. The tensor is freed after that.
  std::function<at::Tensor(const std::string& name)> make_tensor = {};
  /// Called after every tensor with the number of bytes of tensors written so far.
  std::function<void(int64_t bytes)> on_progress = {};
};

/// Writes a program without layouts, of global tensors or of one rank, as a file that torch.export.load reads. Tensors
/// are written one by one, so that only one tensor of a mapped file is in memory at a time. An existing file of this
/// name is replaced at the end, when everything is written.
///
///   write_pt2(localize(program, rank), "out/rank0.pt2");
void write_pt2(const Program& program, const std::string& path, const WriteOptions& options = {});

} // namespace weft::graph
