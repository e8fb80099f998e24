#pragma once

#include "weft/checkpoint/local_state.h"
#include "weft/checkpoint/write_plan.h"

namespace weft {

/// What a rank has, as JSON text that is equal on ranks that have the same. Raises for terms of a value.
std::string description_of(const LocalState& state);

/// What all ranks have together.
struct SavedState {
  std::vector<SavedTensor> tensors; // by name
  std::map<std::string, std::string> values;
};

/// Raises if ranks have different things under one name, or if a rank of a tensor's mesh lacks it. `descriptions` are those of all
/// `world_size` ranks, or one that all of them have.
SavedState merged_state(const std::vector<std::string>& descriptions, int64_t world_size);

} // namespace weft
