#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// The tensors that a program brings along, as an executor uses them: the program's memory where it is only read, which may
/// be a file's, and a copy of what is `changed`.
class Weights {
 public:
  Weights() = default;
  /// In inference mode. Raises for a tensor that the program has an input for but does not bring, and for one that is
  /// changed and shares part of its memory with another.
  Weights(const Program& program, const std::unordered_set<std::string>& changed);

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
