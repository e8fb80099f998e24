#pragma once

#include "weft/graph/analysis/look_through.h"
#include "weft/graph/overlap/collective_forms.h"
#include "weft/graph/overlap/program_rewriter.h"

namespace weft::graph {

/// The matmuls that can overlap a gather, so that one fused operator replaces the gather, the matmuls and the nodes
/// between.
///
/// A cast or permutation that all uses of the gathered value have in common is applied to the shard instead. Behind it,
/// views that keep the rows are looked through. All matmuls that are taken are of one kind (scaled with one scale, or
/// not scaled), and their other operands are computed before the first use of the gathered value, or can be moved
/// there.
class GatherConsumers {
 public:
  struct Consumer {
    MatmulCall call;
    std::vector<Node*> path; // the views from a root to the matmul, without the matmul
  };

  GatherConsumers(ProgramRewriter& rewriter, const Gather& gather);

  /// Why no matmul can overlap the gather, for people; empty where one can.
  const std::string& refused() const {
    return refused_;
  }
  /// In the order of the program.
  const std::vector<Consumer>& taken() const {
    return taken_;
  }
  /// Why a matmul is not taken: "%mm: its right-hand side is computed from the gathered value". Empty where all are
  /// taken.
  const std::string& left() const {
    return left_;
  }
  /// The casts and permutations that are to be repeated on the shard, in order.
  const std::vector<const Node*>& onto_shard() const {
    return onto_shard_;
  }
  /// The values that the fused operator gathers: the full tensor, or the results of the last of `onto_shard`.
  const std::vector<Value*>& roots() const {
    return roots_;
  }
  /// The gathered dim of the roots.
  int64_t dim() const {
    return dim_;
  }
  /// Whether the gathered dim is the one that the matmuls sum over.
  bool sums_over_members() const {
    return dim_ == roots_[0]->tensor().dim() - 1;
  }
  /// The node before which the fused operator is inserted, and the nodes that have to be moved there, in order.
  Node* place() const {
    return place_;
  }
  const std::vector<Node*>& hoisted() const {
    return hoisted_;
  }
  /// The matmuls that are taken, the views that only they use, and the casts and permutations that are applied to the
  /// shard.
  std::vector<Node*> nodes_that_go() const;
  /// The layout of the product under the root's leading dims; none in a rank's program.
  std::optional<Layout> product_layout(const Consumer& consumer) const;

 private:
  void find_roots();
  void find_consumers();
  void find_place();
  void take_largest_kind();
  std::string why_not(const Consumer& consumer) const;
  /// Why a matmul's other operands cannot be computed before `place`; adds to `moved` the nodes that have to be moved
  /// there.
  std::string why_not_in_time(const Consumer& consumer, std::vector<Node*>& moved) const;

  ProgramRewriter& rewriter_;
  const Gather& gather_;
  std::vector<const Node*> onto_shard_;
  std::vector<Node*> between_; // casts and permutations of the full tensor
  std::vector<Value*> roots_;
  int64_t dim_;
  Node* place_ = nullptr;
  std::vector<Consumer> taken_;
  std::vector<Node*> hoisted_;
  std::string left_;
  std::string refused_;
};

} // namespace weft::graph
