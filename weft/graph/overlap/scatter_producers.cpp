#include "weft/graph/overlap/scatter_producers.h"

#include "weft/graph/analysis/fused_node.h"

#include <algorithm>

namespace weft::graph {

namespace {

constexpr size_t kMostTerms = 64;

std::string text_of(const Value& value) {
  return "%" + value.name();
}

bool is_plain_sum(const Node& node) {
  if (node.op() == nullptr || target_name(node) != "aten::add.Tensor" || operand_at(node, 1) == nullptr) {
    return false;
  }
  const auto& alpha = node.arguments()[2];
  return alpha.is_absent() || (alpha.is_constant() && alpha.constant().isInt() && alpha.constant().toInt() == 1) ||
      (alpha.is_constant() && alpha.constant().isDouble() && alpha.constant().toDouble() == 1);
}

bool is_same_shape(const Value& a, const Value& b) {
  return a.is_tensor() && b.is_tensor() && a.tensor().sizes == b.tensor().sizes && a.tensor().dtype == b.tensor().dtype;
}

} // namespace

ScatterProducers::ScatterProducers(
    ProgramRewriter& rewriter,
    Value* full,
    const std::vector<Node*>& users,
    const Node* end)
    : rewriter_(rewriter), full_(full), end_(rewriter.order().number(end)) {
  const auto& sizes = full->tensor().sizes;
  if (sizes.size() < 2) {
    refused_ = "it has one dim";
    return;
  }
  leading_.assign(sizes.begin(), sizes.end() - 1);
  add_terms(full, users);
  if (refused_.empty() && (calls_.size() > 1 || dtype_) &&
      std::any_of(calls_.begin(), calls_.end(), [](const MatmulCall& call) { return call.is_scaled; })) {
    refused_ = dtype_ ? "its matmul is scaled, and the product is cast"
                      : "several matmuls are added up, and one of them is scaled";
  }
}

void ScatterProducers::add_terms(Value* value, const std::vector<Node*>& users) {
  for (const auto& use : rewriter_.uses(*value)) {
    if (std::find(users.begin(), users.end(), use.node) == users.end()) {
      refused_ = c10::str(
          text_of(*value), " is used by ", use.node->is_return() ? "the program's output" : target_name(*use.node),
          " too");
      return;
    }
  }
  auto* node = value->producer();
  if (node == nullptr) {
    refused_ = text_of(*value) + " is an input, not a product";
    return;
  }
  if (auto call = matmul_of(*node)) {
    refused_ = call->refused.empty() ? why_not(*call) : call->refused;
    if (!refused_.empty()) {
      refused_ = text_of(*value) + ": " + refused_;
      return;
    }
    if (call->bias != nullptr) {
      if (bias_ != nullptr) {
        refused_ = "more than one of the matmuls that are added up has a bias";
        return;
      }
      bias_ = call->bias;
    }
    calls_.push_back(std::move(*call));
    nodes_.push_back(node);
    return;
  }
  const auto is_sum = is_plain_sum(*node) && is_same_shape(*operand_at(*node, 0), *value) &&
      is_same_shape(*operand_at(*node, 1), *value);
  const auto casts = is_cast(*node) && !has_sum_ && !dtype_ && c10::isFloatingType(value->tensor().dtype) &&
      c10::isFloatingType(node->operand(0)->tensor().dtype);
  if (casts) {
    dtype_ = value->tensor().dtype;
  }
  if (!is_sum && !casts && !keeps_rows(*node)) {
    refused_ = is_fused_operator(*node)
        ? text_of(*value) + " overlaps another collective already"
        : c10::str(text_of(*value), " is computed by ", target_name(*node), ", not by a matmul");
    return;
  }
  if (nodes_.size() > kMostTerms) {
    refused_ = "it is the sum of too many terms";
    return;
  }
  if (rewriter_.order().is_written_between(value, rewriter_.order().number(node), end_)) {
    refused_ = text_of(*value) + " is written to before it is reduced";
    return;
  }
  nodes_.push_back(node);
  has_sum_ = has_sum_ || is_sum;
  add_terms(operand_at(*node, 0), {node});
  if (is_sum && refused_.empty()) {
    add_terms(operand_at(*node, 1), {node});
  }
}

Value* ScatterProducers::known_input(const MatmulCall& call, const Sizes& leading) {
  const auto has_leading = [&](const Value& value) {
    const auto& sizes = value.tensor().sizes;
    return Sizes(sizes.begin(), sizes.end() - 1) == leading;
  };
  if (has_leading(*call.input)) {
    return call.input;
  }
  const auto* producer = call.input->producer();
  if (producer != nullptr && keeps_rows(*producer) && has_leading(*producer->operand(0))) {
    return producer->operand(0);
  }
  return nullptr;
}

std::string ScatterProducers::why_not(const MatmulCall& call) const {
  const auto from = rewriter_.order().number(call.node);
  const auto is_written = [&](const Value* value) {
    return value != nullptr && rewriter_.order().is_written_between(value, from, end_);
  };
  const auto* known = known_input(call, leading_);
  for (const auto* value :
       {call.node->output(), call.input, call.other, call.bias, call.input_scale, call.other_scale,
        call.result_scale}) {
    if (is_written(value)) {
      return "what it is computed of is written to before it is reduced";
    }
  }
  // `known` may be the operand of a reshape. A write to it between the reshape and the fused operator is refused,
  // because a reshape that copied would not see the write.
  if (known != nullptr && known != call.input &&
      rewriter_.order().is_written_between(known, rewriter_.order().number(call.input->producer()), end_)) {
    return "what it is computed of is written to before it is reduced";
  }
  if (known == nullptr) {
    auto sizes = leading_;
    sizes.push_back(call.input->tensor().sizes.back());
    if (!ProgramRewriter::can_state(sizes)) {
      return "more than one of its sizes is a symbol";
    }
    if (call.is_scaled && !(call.input_scale->tensor().sizes.empty() || call.input_scale->tensor().sizes == Sizes{1})) {
      return "its left-hand side has a scale per row, and other leading dims than the product";
    }
    if (full_->layout && !layout_of_rows(*full_, *call.input, full_->tensor().dim())) {
      return "its rows are sharded in another way than those of the reduced tensor";
    }
  }
  return {};
}

Value* ScatterProducers::input_of(const MatmulCall& call) {
  if (auto* known = known_input(call, leading_)) {
    return known;
  }
  auto sizes = leading_;
  sizes.push_back(call.input->tensor().sizes.back());
  return rewriter_.reshape(
      call.input, sizes, full_->layout ? layout_of_rows(*full_, *call.input, full_->tensor().dim()) : std::nullopt);
}

std::vector<Node*> ScatterProducers::nodes() const {
  std::vector<Node*> sorted(nodes_.rbegin(), nodes_.rend());
  std::sort(sorted.begin(), sorted.end(), [&](const Node* a, const Node* b) {
    return rewriter_.order().number(a) < rewriter_.order().number(b);
  });
  return sorted;
}

} // namespace weft::graph
