#pragma once

#include "weft/graph/overlap/member_pieces.h"

namespace weft::graph {

/// An all-gather as dataflow: `whole` is everybody's `shard`, one after the other along `dim`.
///
/// In a parallel program (of whole tensors) that is a step over one tensor dim. In a program of one rank, ours or
/// PyTorch's, it is all_gather_into_tensor, its wait, and whatever cuts the result along dim 0 and joins the pieces along
/// another dim, trims nothing, or changes the dtype's name: the nodes of one gather together.
///
///   %g: f32[4,8] = _c10d_functional::all_gather_into_tensor(%x, 2, "tp")
///   %w: f32[4,8] = _c10d_functional::wait_tensor(%g)
///   [%a: f32[2,8], %b: f32[2,8]] = aten::split.Tensor(%w, 2)
///   %c: f32[2,16] = aten::cat([%a, %b], 1)            whole %c of shard %x along dim 1 over "tp", of 2 members
struct Gather {
  /// A value on the way that others than `nodes` use. Without the nodes it has to be made of the whole: see remake.
  struct Kept {
    Value* value;
    Arrangement arrangement;
  };

  Node* collective = nullptr;    // the step, or all_gather_into_tensor
  Value* shard = nullptr;        // before its bits were given another dtype, where `whole` is of the one before
  Value* whole = nullptr;        // nullptr where it is refused
  std::vector<Node*> nodes = {}; // from the collective to the one that gives `whole`, in order
  int64_t dim = 0;               // not negative
  int64_t members = 1;           // of the group
  std::string group = {};        // "tp", "dp,tp"; PyTorch's name of a group
  std::optional<Size> size =
      {}; // along `dim`, where the shards may not all be of one size: pieces as torch.chunk cuts it
  std::vector<Kept> kept =
      {}; // of a rank's program; the collective's own result too, where it is saved for the backward
  /// The dtype that the shard's bits (view.dtype) have in `whole`, where it is another of the same size.
  std::optional<c10::ScalarType> viewed_as = {};
  /// Why it is not exactly a gather, for people: "the pieces are joined in another order"; empty where it is one.
  std::string refused = {};
};

/// A reduce-scatter: `piece` is this member's piece along `dim`, as torch.chunk cuts, of the reduction of everybody's
/// `whole`.
struct Scatter {
  Node* collective = nullptr; // the step, or reduce_scatter_tensor
  Value* whole = nullptr;
  Value* piece = nullptr;        // what is waited for; nullptr where it is refused
  Value* unwaited = nullptr;     // in a rank's program, the collective's own result where it is saved for the backward
  std::vector<Node*> nodes = {}; // from the one that cuts `whole` to the one that gives `piece`, in order
  int64_t dim = 0;
  int64_t members = 1;
  std::string group = {};
  std::string reduce_op = {};    // "sum", "avg", "max", ...
  std::optional<Size> size = {}; // as a gather's
  bool is_whole_kept = false;    // others than `nodes` use `whole`, or what was cut of it
  std::string refused = {};
};

/// An all-reduce: a step, or all_reduce and its wait.
struct Reduction {
  Node* collective = nullptr;
  Value* input = nullptr;
  Value* result = nullptr;   // nullptr where it is refused
  Value* unwaited = nullptr; // as a scatter's
  std::vector<Node*> nodes = {};
  int64_t members = 1; // 0 where nobody knows: PyTorch's operator does not say
  std::string group = {};
  std::string reduce_op = {};
  std::string refused = {};
};

struct CollectiveForms {
  std::vector<Gather> gathers; // in the order of the graph
  std::vector<Scatter> scatters;
  std::vector<Reduction> reductions;
  /// Uses of values that were looked at: no more than a few times those that the graph has.
  size_t looked_at = 0;
};

/// All of them, in one walk over the graph. What is not exactly one (the order of pieces, their sizes, a trim, a write in
/// between) is listed with the reason.
CollectiveForms find_collectives(const Program& program);

/// The shard as it is now: what nodes before the gather were replaced by since it was found is what the collective is given.
Value* current_shard(const Gather& gather);

/// What a gather kept, made anew by nodes before `before`: `whole` holds what the gather's whole does.
Value* remake(const Gather& gather, const Gather::Kept& kept, Value* whole, Node* before);

} // namespace weft::graph
