#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// An all-gather as dataflow: `whole` is everybody's `shard`, one after the other along `dim`.
///
/// In a parallel program (of whole tensors) that is a step over one tensor dim. In a program of one rank, ours or
/// PyTorch's, it is all_gather_into_tensor, its wait, and whatever cuts the result along dim 0 and joins the pieces along
/// another dim, trims nothing, or changes the dtype's name: the nodes of one gather together.
struct Gather {
  Node* collective; // the step, or all_gather_into_tensor
  Value* shard = nullptr;
  Value* whole = nullptr;      // nullptr where it is refused
  std::vector<Node*> nodes;    // from the collective to the one that gives `whole`, in order
  int64_t dim = 0;             // not negative
  int64_t members = 1;         // of the group
  std::string group;           // "tp", "dp,tp"; PyTorch's name of a group
  std::optional<int64_t> size; // along `dim`, where the shards are not all of one size: pieces as torch.chunk cuts it
  /// Why it is not exactly a gather, for people: "the pieces are joined in another order"; empty where it is one.
  std::string refused;
};

/// A reduce-scatter: `piece` is this member's piece along `dim`, as torch.chunk cuts, of the reduction of everybody's
/// `whole`.
struct Scatter {
  Node* collective; // the step, or reduce_scatter_tensor
  Value* whole = nullptr;
  Value* piece = nullptr;    // what is waited for; nullptr where it is refused
  Value* unwaited = nullptr; // in a rank's program, the collective's own result where others than its wait use it
  std::vector<Node*> nodes;  // from the one that cuts `whole` to the one that gives `piece`, in order
  int64_t dim = 0;
  int64_t members = 1;
  std::string group;
  std::string reduce_op; // "sum", "avg", "max", ...
  std::optional<int64_t> size;
  std::string refused;
};

/// An all-reduce: a step, or all_reduce and its wait.
struct Reduction {
  Node* collective;
  Value* input = nullptr;
  Value* result = nullptr;
  std::vector<Node*> nodes;
  int64_t members = 1;
  std::string group;
  std::string reduce_op;
  std::string refused;
};

struct CollectiveForms {
  std::vector<Gather> gathers; // in the order of the graph
  std::vector<Scatter> scatters;
  std::vector<Reduction> reductions;
};

/// All of them, in one walk over the graph. What is not exactly one (the order of pieces, their sizes, a trim) is listed
/// with the reason.
CollectiveForms find_collectives(const Program& program);

} // namespace weft::graph
