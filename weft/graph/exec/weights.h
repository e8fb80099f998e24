#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// The program's tensors as an executor uses them: read-only tensors use the program's memory, which may be a mapped
/// file, and those in `changed` are copied if the executor asks for it.
class Weights {
 public:
  Weights() = default;
  /// Runs in inference mode. Raises for a tensor that the program has an input for but does not contain, and for a
  /// changed tensor that shares a part of its memory with another one.
  Weights(const Program& program, const std::unordered_set<std::string>& changed, bool copies_changed = true);

  const at::Tensor& at(const std::string& name) const;
  /// The storages that belong to the program.
  const std::unordered_set<const void*>& read_only() const {
    return read_only_;
  }

 private:
  std::unordered_map<std::string, at::Tensor> tensors_;
  std::unordered_set<const void*> read_only_;
};

} // namespace weft::graph
