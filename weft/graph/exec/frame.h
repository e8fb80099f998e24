#pragma once

#include "weft/comm/pending.h"

#include <ATen/core/stack.h>

#include <unordered_set>

namespace weft::graph {

class RandomSource;

/// A running collective, and the memory that it reads.
struct Transfer {
  Pending pending;
  AsyncTensor result; // of a redistribution, which makes its result only at the end
  c10::SmallVector<const void*, 1> reads;

  void wait() {
    pending.wait();
    result.wait();
  }
};

/// The state of a run.
struct Frame {
  std::vector<c10::IValue> slots;  // the values that are alive, by number
  torch::jit::Stack stack;         // the arguments of operators
  std::vector<Transfer> transfers; // by number
  RandomSource* random = nullptr;
  /// The storages of weights that belong to the program and not to the executor; operators must not write to them.
  std::unordered_set<const void*> read_only;
};

} // namespace weft::graph
