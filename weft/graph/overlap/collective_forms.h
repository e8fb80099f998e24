#pragma once

#include "weft/graph/overlap/member_chunks.h"

namespace weft::graph {

/// An all-gather as dataflow: `full` is the `shard` of every member, joined along `dim` in the order of the members.
///
/// In a parallel program (of global tensors) that is a redistribution step over one tensor dim. In a program of one
/// rank, ours or PyTorch's, it is all_gather_into_tensor, its wait, and the nodes that split the result along dim 0 and
/// join the shards along another dim, slice the full range, or view the bits as another dtype. `nodes` has all of them.
///
///   %g: f32[4,8] = _c10d_functional::all_gather_into_tensor(%x, 2, "tp")
///   %w: f32[4,8] = _c10d_functional::wait_tensor(%g)
///   [%a: f32[2,8], %b: f32[2,8]] = aten::split.Tensor(%w, 2)
///   %c: f32[2,16] = aten::cat([%a, %b], 1)            full %c of shard %x along dim 1 over "tp", of 2 members
struct Gather {
  /// A value between the collective and `full` that other nodes use too. When `nodes` are replaced, remake computes it
  /// from the full tensor.
  struct Kept {
    Value* value;
    Arrangement arrangement;
  };

  Node* collective = nullptr;    // the step, or all_gather_into_tensor
  Value* shard = nullptr;        // before its bits were viewed as another dtype, where `full` has the dtype from before
  Value* full = nullptr;         // nullptr where it is refused
  std::vector<Node*> nodes = {}; // from the collective to the one that gives `full`, in order
  int64_t dim = 0;               // not negative
  int64_t members = 1;           // of the group
  std::string group = {};        // "tp", "dp,tp"; PyTorch's name of a group
  /// The size of `full` along `dim`, if the shards may differ in size. They are then those of torch.chunk.
  std::optional<Size> size = {};
  /// In a rank's program; includes the collective's own result where it is saved for the backward.
  std::vector<Kept> kept = {};
  /// The dtype that the shard's bits are viewed as (view.dtype) in `full`, if it is another one of the same size.
  std::optional<c10::ScalarType> viewed_as = {};
  /// Why it is not exactly a gather, for people: "the shards are joined in another order"; empty where it is one.
  std::string refused = {};
};

/// A reduce-scatter: the `full` tensors of all members are reduced, and `shard` is this member's chunk of the result
/// along `dim`, as torch.chunk divides it.
struct Scatter {
  Node* collective = nullptr; // the step, or reduce_scatter_tensor
  Value* full = nullptr;
  Value* shard = nullptr;        // what is waited for; nullptr where it is refused
  Value* unwaited = nullptr;     // in a rank's program, the collective's own result if it is saved for the backward
  std::vector<Node*> nodes = {}; // from the one that splits `full` to the one that gives `shard`, in order
  int64_t dim = 0;
  int64_t members = 1;
  std::string group = {};
  std::string reduce_op = {};    // "sum", "avg", "max", ...
  std::optional<Size> size = {}; // as in Gather
  bool is_full_kept = false;     // nodes other than `nodes` use `full`, or a slice of it
  std::string refused = {};
};

/// An all-reduce: a step, or all_reduce and its wait.
struct Reduction {
  Node* collective = nullptr;
  Value* input = nullptr;
  Value* result = nullptr;   // nullptr where it is refused
  Value* unwaited = nullptr; // as in Scatter
  std::vector<Node*> nodes = {};
  int64_t members = 1; // 0 where it is not known: PyTorch's operator does not say
  std::string group = {};
  std::string reduce_op = {};
  std::string refused = {};
};

struct CollectiveForms {
  std::vector<Gather> gathers; // in the order of the graph
  std::vector<Scatter> scatters;
  std::vector<Reduction> reductions;
  /// How many uses of values were looked at: at most a few times as many as the graph has.
  size_t looked_at = 0;
};

/// Finds all collectives of a program in one walk over the graph. One that is not exactly a gather, scatter or
/// reduction (because of the order of shards, their sizes, a slice, or a write in between) is listed with the reason.
CollectiveForms find_collectives(const Program& program);

/// The gather's shard in the program as it is now. Nodes that produced `shard` may have been replaced since it was
/// found, so that the shard is looked up from the collective's operand.
Value* current_shard(const Gather& gather);

/// Computes a kept value of a gather again, from `full`, by nodes that are inserted before `before`. `full` has the
/// same values as the gather's `full`.
Value* remake(const Gather& gather, const Gather::Kept& kept, Value* full, Node* before);

} // namespace weft::graph
