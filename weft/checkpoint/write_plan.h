#pragma once

#include "weft/checkpoint/stored_tensors.h"
#include "weft/core/tensor_spec.h"

namespace weft {

/// A tensor that is to be saved, as all ranks know it.
struct SavedTensor {
  std::string name = {};
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  c10::DimVector sizes = {};
  SpecPtr spec = {};                 // none for a plain tensor, which counts as replicated
  std::vector<int64_t> holders = {}; // the ranks that have a plain tensor
};

/// What one rank writes of a tensor: its local tensor, or of a large one that several ranks hold a range along one dim.
struct WrittenPart {
  size_t tensor = 0; // in the list of tensors
  BlockIndex index = {};
  int64_t dim = -1; // of the range; -1: all
  Run range = {0, 0};
};

/// A local tensor that several ranks hold and that is at least as large is divided between them.
constexpr uint64_t kDividedBytes = 16 << 20;

/// The parts that a rank writes. All ranks get the same answer for each of them from the same list: together they write
/// every element once. What several ranks hold is written by the one that has the least to write so far.
std::vector<WrittenPart> plan_writes(c10::ArrayRef<SavedTensor> tensors, int64_t rank, int64_t world_size);

} // namespace weft
