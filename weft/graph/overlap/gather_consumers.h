#pragma once

#include "weft/graph/analysis/look_through.h"
#include "weft/graph/overlap/collective_forms.h"
#include "weft/graph/overlap/program_rewriter.h"

namespace weft::graph {

/// The matmuls that can run beside a gather, in place of all that lies between.
///
/// Casts and permutations that all uses of the gathered value go through happen to the shard instead. Behind them, views that
/// keep the rows are looked through. All matmuls that are taken are of one kind, and their other operands are there before
/// the first use of the gathered value, or can be moved there.
class GatherConsumers {
 public:
  struct Consumer {
    MatmulCall call;
    std::vector<Node*> path; // from a root to the matmul, without it
  };

  GatherConsumers(ProgramRewriter& rewriter, const Gather& gather);

  /// Why there are none, for people; empty where there are.
  const std::string& refused() const {
    return refused_;
  }
  /// In the order of the program.
  const std::vector<Consumer>& taken() const {
    return taken_;
  }
  /// Why others take the gathered value: "%mm: its right-hand side comes of the gathered value". Empty where all are taken.
  const std::string& left() const {
    return left_;
  }
  /// The nodes that are to be repeated on the shard, in order.
  const std::vector<const Node*>& onto_shard() const {
    return onto_shard_;
  }
  /// The values that are what the fused operator gathers: the whole, or what the last of `onto_shard` makes of it.
  const std::vector<Value*>& roots() const {
    return roots_;
  }
  /// The dim of the root that is gathered.
  int64_t dim() const {
    return dim_;
  }
  /// Whether that is the one which the matmuls sum over.
  bool sums_over_members() const {
    return dim_ == roots_[0]->tensor().dim() - 1;
  }
  /// What the fused operator comes before, and the nodes that have to be moved there, in order.
  Node* place() const {
    return place_;
  }
  const std::vector<Node*>& hoisted() const {
    return hoisted_;
  }
  /// The matmuls that are taken, and what else nobody needs without them, each before what uses it.
  std::vector<Node*> nodes_that_go() const;
  /// How the product lies under the root's leading dims; none in a rank's program.
  std::optional<Layout> product_layout(const Consumer& consumer) const;

 private:
  void find_roots();
  void find_consumers();
  void find_place();
  void take_largest_kind();
  std::string why_not(const Consumer& consumer) const;
  /// Why a matmul's other operands cannot be there in time; adds to `moved` those nodes that have to be moved.
  std::string why_not_in_time(const Consumer& consumer, std::vector<Node*>& moved) const;

  ProgramRewriter& rewriter_;
  const Gather& gather_;
  std::vector<const Node*> onto_shard_;
  std::vector<Node*> between_; // casts and permutations of the whole
  std::vector<Value*> roots_;
  int64_t dim_;
  Node* place_ = nullptr;
  std::vector<Consumer> taken_;
  std::vector<Node*> hoisted_;
  std::string left_;
  std::string refused_;
};

} // namespace weft::graph
