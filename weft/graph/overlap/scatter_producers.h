#pragma once

#include "weft/graph/analysis/look_through.h"
#include "weft/graph/overlap/program_rewriter.h"

namespace weft::graph {

/// The matmuls whose products, summed, are what a collective reduces: one, or several that are added up, under views that
/// keep the rows and a cast of the sum. Nobody else needs them, or what lies between.
///
///   add(view(mm(%a, %v)), view(mm(%b, %w)))      two matmuls, as the backward of one gather's has them
class ScatterProducers {
 public:
  /// `users`: the nodes that are allowed to use `whole`; `end`: where its terms will be computed.
  ScatterProducers(ProgramRewriter& rewriter, Value* whole, const std::vector<Node*>& users, const Node* end);

  /// Why there are none, for people; empty where there are.
  const std::string& refused() const {
    return refused_;
  }
  const std::vector<MatmulCall>& calls() const {
    return calls_;
  }
  /// What the sum is cast to; none: it is not.
  std::optional<c10::ScalarType> dtype() const {
    return dtype_;
  }
  /// The one addend of all terms.
  Value* bias() const {
    return bias_;
  }
  /// The matmuls and what lies between, each behind what it uses.
  std::vector<Node*> nodes() const;
  /// The left-hand side of a matmul under the leading dims of the whole, by a new node where there is none.
  Value* input_of(const MatmulCall& call);

 private:
  void add_terms(Value* value, const std::vector<Node*>& users);
  /// The left-hand side as it is there; nullptr where its rows have to be written in another way.
  static Value* known_input(const MatmulCall& call, const Sizes& leading);
  std::string why_not(const MatmulCall& call) const;

  ProgramRewriter& rewriter_;
  Value* whole_;
  Sizes leading_;
  int64_t end_;
  std::vector<MatmulCall> calls_;
  std::vector<Node*> nodes_; // from the last to the first
  Value* bias_ = nullptr;
  std::optional<c10::ScalarType> dtype_;
  bool has_sum_ = false;
  std::string refused_;
};

} // namespace weft::graph
