#pragma once

#include "weft/graph/analysis/look_through.h"
#include "weft/graph/overlap/program_rewriter.h"

namespace weft::graph {

/// The matmuls that produce the operand of a collective which reduces: one matmul, or several whose products are added.
/// Views that keep the rows and a cast of the sum are looked through. No other node may use the products or the values
/// in between.
///
///   add(view(mm(%a, %v)), view(mm(%b, %w)))      two matmuls, as in the backward of two matmuls of one gathered value
class ScatterProducers {
 public:
  /// `full`: the operand of the collective; `users`: the nodes that may use it; `end`: where the fused operator will
  /// be.
  ScatterProducers(ProgramRewriter& rewriter, Value* full, const std::vector<Node*>& users, const Node* end);

  /// Why the matmuls cannot be fused, for people; empty where they can.
  const std::string& refused() const {
    return refused_;
  }
  const std::vector<MatmulCall>& calls() const {
    return calls_;
  }
  /// The dtype that the sum is cast to, if it is cast.
  std::optional<c10::ScalarType> dtype() const {
    return dtype_;
  }
  /// The bias of one of the matmuls, which is added to the sum; nullptr where there is none.
  Value* bias() const {
    return bias_;
  }
  /// The matmuls and the nodes between them and the collective, in the order of the program.
  std::vector<Node*> nodes() const;
  /// The left-hand side of a matmul with the leading dims of `full`; inserts a reshape where it has others.
  Value* input_of(const MatmulCall& call);

 private:
  void add_terms(Value* value, const std::vector<Node*>& users);
  /// The left-hand side with these leading dims, or the operand of its view that has them; nullptr where neither does.
  static Value* known_input(const MatmulCall& call, const Sizes& leading);
  std::string why_not(const MatmulCall& call) const;

  ProgramRewriter& rewriter_;
  Value* full_;
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
