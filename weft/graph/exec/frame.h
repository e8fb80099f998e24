#pragma once

#include "weft/comm/pending.h"

#include <ATen/core/stack.h>

#include <unordered_set>

namespace weft::graph {

class RandomSource;

/// A collective that is under way, and the memory that it reads meanwhile.
struct Transfer {
  Pending pending;
  c10::SmallVector<const void*, 1> reads;
};

/// What a run works on.
struct Frame {
  std::vector<c10::IValue> slots;  // the values that are alive, by number
  torch::jit::Stack stack;         // what operators are called with
  std::vector<Transfer> transfers; // by number
  RandomSource* random = nullptr;
  /// The storages of weights that belong to the program, not to the executor: nothing may write there.
  std::unordered_set<const void*> read_only;
};

} // namespace weft::graph
