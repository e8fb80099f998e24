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

/// What one rank writes of a tensor: its local tensor, or a block of it where several ranks hold it or a file cannot.
struct WrittenPart {
  size_t tensor = 0; // in the list of tensors
  BlockIndex index = {};
  c10::SmallVector<Run, 4> positions = {}; // in the local tensor, per dim
};

/// A local tensor that several ranks hold and that is at least as large is divided between them.
constexpr uint64_t kDividedBytes = 16 << 20;

/// The parts that a rank writes. All ranks get the same answer for each of them from the same list: together they write
/// every element once. What several ranks hold is written by the one that has the least to write so far. A part has at most
/// `max_bytes`, or one element.
std::vector<WrittenPart> plan_writes(
    c10::ArrayRef<SavedTensor> tensors,
    int64_t rank,
    int64_t world_size,
    uint64_t max_bytes);

} // namespace weft
