#pragma once

#include "weft/fully_sharded/unit.h"

#include <torch/csrc/autograd/function.h>

#include <algorithm>

namespace weft {

/// One forward of a unit.
struct Unit::Use {
  bool is_global = false;
  uint64_t number = 0; // of the unit's
  uint64_t writes = 0; // to the shards, when they were gathered
  std::vector<at::Tensor> gathered;
  std::vector<uint32_t> versions; // of the gathered parameters
  std::vector<size_t> trained;    // the leaves whose gradients the node is given
  uint64_t begin = 0;             // the nodes of this forward have sequence numbers from here on
  UsePtr around =
      nullptr; // in backward: the unit's forward that this one is inside of, whose backward goes on after it

  bool is_inside(const UsePtr& other) const {
    return around && (around == other || around->is_inside(other));
  }
  /// Whether nodes of this forward, or of those around it, may be left to run when `node` does: autograd runs later nodes first.
  bool may_go_on(uint64_t node) const {
    return node >= begin || (around && around->may_go_on(node));
  }
  /// Whether a tensor was computed in this forward, so that a backward may begin there.
  bool has_computed(const at::Tensor& tensor) const;
  /// Whether a tensor is a gathered parameter or shares the memory of one.
  bool shares_memory(const at::Tensor& tensor) const;
  /// Raises if a gathered parameter was written to.
  void check_unwritten(c10::ArrayRef<at::Tensor> leaves) const;
};

inline bool Unit::Use::has_computed(const at::Tensor& tensor) const {
  return tensor.defined() && tensor.requires_grad() && tensor.grad_fn() && tensor.grad_fn()->sequence_nr() >= begin;
}

inline bool Unit::Use::shares_memory(const at::Tensor& tensor) const {
  const auto storage_of = [](const at::Tensor& one) -> const c10::StorageImpl* {
    if (is_dtensor(one) && as_dtensor(one)->is_pending()) {
      return nullptr; // a collective gives it memory of its own
    }
    const auto& local = is_dtensor(one) ? as_dtensor(one)->local() : one;
    return local.has_storage() ? local.storage().unsafeGetStorageImpl() : nullptr;
  };
  const auto* const storage = tensor.defined() ? storage_of(tensor) : nullptr;
  return storage != nullptr && std::any_of(gathered.begin(), gathered.end(), [&](const auto& parameter) {
           return storage_of(parameter) == storage;
         });
}

inline void Unit::Use::check_unwritten(c10::ArrayRef<at::Tensor> leaves) const {
  for (size_t k = 0; k < gathered.size(); ++k) {
    TORCH_CHECK(
        version_of(gathered[k]) == versions[k],
        "[fully_shard] parameters that are not written to while they are gathered are required, but the one with the "
        "shard ",
        *as_dtensor(leaves[k])->spec(),
        " was. The gathered copy is thrown away: write to the parameter between steps, or name it "
        "among ignored_params.");
  }
}

} // namespace weft
