#include "weft/graph/overlap/gather_consumers.h"

#include "weft/graph/analysis/effects.h"
#include "weft/graph/analysis/fused_node.h"

#include <algorithm>

namespace weft::graph {

namespace {

/// The most nodes that are moved for one matmul. More are rarely worth it, and looking for them takes time.
constexpr size_t kMostHoisted = 64;
constexpr size_t kLongestPath = 8;

std::string text_of(const Node& node) {
  return "%" + node.output()->name();
}

/// The operands of a matmul other than the gathered one.
std::vector<Value*> other_operands(const MatmulCall& call) {
  std::vector<Value*> operands;
  for (auto* value : {call.other, call.bias, call.input_scale, call.other_scale, call.result_scale}) {
    if (value != nullptr) {
      operands.push_back(value);
    }
  }
  return operands;
}

/// Whether a node may be moved, apart from its operands.
bool can_move(const Node& node) {
  return !has_side_effects(node) && !is_random(node);
}

bool is_one_number(const Value& scale) {
  const auto& sizes = scale.tensor().sizes;
  return std::all_of(sizes.begin(), sizes.end(), [](const Size& size) { return size == Size(1); });
}

} // namespace

GatherConsumers::GatherConsumers(ProgramRewriter& rewriter, const Gather& gather)
    : rewriter_(rewriter), gather_(gather), roots_({gather.full}), dim_(gather.dim) {
  find_roots();
  find_place();
  if (!refused_.empty()) {
    return;
  }
  find_consumers();
  take_largest_kind();
  if (refused_.empty() && sums_over_members()) {
    const auto gone = nodes_that_go();
    for (const auto* root : roots_) {
      for (const auto& use : rewriter_.uses(*root)) {
        if (std::find(gone.begin(), gone.end(), use.node) == gone.end()) {
          refused_ = c10::str(
              "the dim that the matmul sums over is gathered, and others than matmuls use what is gathered too (",
              use.node->is_return() ? "the program's output" : text_of(*use.node), ")");
          return;
        }
      }
    }
  }
}

void GatherConsumers::find_roots() {
  const auto all_uses = [&] {
    std::vector<Node*> nodes;
    for (const auto* root : roots_) {
      for (const auto& use : rewriter_.uses(*root)) {
        nodes.push_back(use.node);
      }
    }
    return nodes;
  };
  while (gather_.kept.empty() && onto_shard_.size() < kLongestPath) {
    const auto nodes = all_uses();
    if (nodes.empty()) {
      return;
    }
    const auto& first = *nodes[0];
    const auto permutation = permutation_of(first);
    const auto is_alike = [&](const Node* node) {
      return permutation ? permutation_of(*node) == permutation
                         : is_cast(*node) && node->output()->tensor().dtype == first.output()->tensor().dtype &&
              target_name(*node) == target_name(first);
    };
    // A cast to a longer dtype would make more bytes to send, which costs more than overlap hides.
    const bool is_worth_it = permutation ||
        (is_cast(first) &&
         c10::elementSize(first.output()->tensor().dtype) <= c10::elementSize(first.operand(0)->tensor().dtype));
    if (!is_worth_it || !std::all_of(nodes.begin(), nodes.end(), is_alike)) {
      return;
    }
    if (permutation) {
      dim_ = std::find(permutation->begin(), permutation->end(), dim_) - permutation->begin();
    }
    onto_shard_.push_back(&first);
    roots_.clear();
    for (auto* node : nodes) {
      between_.push_back(node);
      roots_.push_back(node->output());
    }
  }
}

void GatherConsumers::find_place() {
  const auto consider = [&](const Value* value) {
    for (const auto& use : rewriter_.uses(*value)) {
      const bool is_own = std::find(gather_.nodes.begin(), gather_.nodes.end(), use.node) != gather_.nodes.end();
      if (!is_own && (place_ == nullptr || rewriter_.order().number(use.node) < rewriter_.order().number(place_))) {
        place_ = use.node;
      }
    }
  };
  consider(gather_.full);
  for (const auto& kept : gather_.kept) {
    consider(kept.value);
  }
  if (place_ == nullptr) {
    refused_ = "the gathered value is not used";
  } else if (rewriter_.order().is_written_between(
                 gather_.shard, rewriter_.order().number(gather_.collective), rewriter_.order().number(place_))) {
    refused_ = "the shard is written to before the gathered value is used";
  }
}

void GatherConsumers::find_consumers() {
  std::vector<std::string> reasons;
  std::unordered_set<const Node*> seen; // a node may use a value twice
  const auto visit = [&](const auto& self, const Value& value, const std::vector<Node*>& path) -> void {
    for (const auto& use : rewriter_.uses(value)) {
      if (!seen.insert(use.node).second) {
        continue;
      }
      if (auto call = matmul_of(*use.node)) {
        if (call->input != &value) {
          reasons.push_back(text_of(*use.node) + " has it on its right-hand side");
          continue;
        }
        Consumer consumer{std::move(*call), path};
        const auto reason = why_not(consumer);
        if (reason.empty()) {
          taken_.push_back(std::move(consumer));
        } else {
          reasons.push_back(text_of(*use.node) + ": " + reason);
        }
      } else if (is_fused_operator(*use.node)) {
        reasons.push_back(text_of(*use.node) + " overlaps another collective already");
      } else if (keeps_rows(*use.node) && path.size() < kLongestPath) {
        auto longer = path;
        longer.push_back(use.node);
        self(self, *use.node->output(), longer);
      }
    }
  };
  for (const auto* root : roots_) {
    visit(visit, *root, {});
  }
  std::sort(taken_.begin(), taken_.end(), [&](const Consumer& a, const Consumer& b) {
    return rewriter_.order().number(a.call.node) < rewriter_.order().number(b.call.node);
  });
  if (!reasons.empty()) {
    left_ = reasons[0] + (reasons.size() == 1 ? "" : c10::str(", and ", reasons.size() - 1, " more"));
  }
  if (taken_.empty()) {
    refused_ = left_.empty() ? "no matmul takes what is gathered" : left_;
  }
}

std::string GatherConsumers::why_not(const Consumer& consumer) const {
  const auto& call = consumer.call;
  if (!call.refused.empty()) {
    return call.refused;
  }
  for (const auto* operand : other_operands(call)) {
    if (std::find(roots_.begin(), roots_.end(), operand) != roots_.end() || operand == call.input) {
      return "the gathered value is on both of its sides";
    }
  }
  const auto& root = *roots_[0];
  if (root.tensor().dim() < 2) {
    return "what is gathered has one dim";
  }
  if (!ProgramRewriter::can_state(call.node->output()->tensor().sizes)) {
    return "more than one of its sizes is a symbol";
  }
  if (root.layout) {
    const auto layout = product_layout(consumer);
    if (!layout) {
      return "its rows are sharded in another way than those of the gathered value";
    }
    const auto& members = gather_.collective->step()->mesh_dims;
    if (sums_over_members() &&
        std::any_of(members.begin(), members.end(), [&](int64_t m) { return (*layout)[m].is_replicate(); })) {
      return "all ranks compute the same, and would sum over the members in different orders";
    }
  }
  const auto from = rewriter_.order().number(gather_.collective);
  const auto to = rewriter_.order().number(call.node);
  if (rewriter_.order().is_written_between(gather_.full, from, to) ||
      rewriter_.order().is_written_between(call.input, from, to)) {
    return "what is gathered is written to before it";
  }
  if (call.is_scaled) {
    if (sums_over_members()) {
      return "it is scaled, and the dim that it sums over is gathered";
    }
    if (!is_one_number(*call.input_scale) && !consumer.path.empty()) {
      return "its left-hand side has a scale per row, and not the leading dims of what is gathered";
    }
  }
  return {};
}

std::string GatherConsumers::why_not_in_time(const Consumer& consumer, std::vector<Node*>& moved) const {
  const auto& order = rewriter_.order();
  const auto place = order.number(place_);
  const auto end = order.number(consumer.call.node);
  std::unordered_set<const Node*> seen(moved.begin(), moved.end());
  std::vector<Node*> found;
  std::vector<Value*> open = other_operands(consumer.call);
  for (const auto* operand : open) {
    if (order.is_written_between(operand, place, end)) {
      return "its other operands are written to before it";
    }
  }
  while (!open.empty()) {
    auto* producer = open.back()->producer();
    open.pop_back();
    if (producer == nullptr || order.number(producer) < place || !seen.insert(producer).second) {
      continue;
    }
    // A node that depends on the full tensor does so through one of its uses, and all of these are behind `place`. So
    // the search reaches the full tensor itself before it leaves the nodes behind `place`.
    for (size_t i = 0; i < producer->operand_count(); ++i) {
      auto* operand = producer->operand(i);
      const bool is_kept = std::any_of(
          gather_.kept.begin(), gather_.kept.end(), [&](const Gather::Kept& kept) { return kept.value == operand; });
      if (operand == gather_.full || is_kept) {
        return "its right-hand side is computed from the gathered value";
      }
      if (order.is_written_between(operand, place, order.number(producer))) {
        return "its other operands are written to before it";
      }
      open.push_back(operand);
    }
    found.push_back(producer);
    if (found.size() > kMostHoisted) {
      return "its right-hand side is computed far behind the gather";
    }
  }
  for (const auto* node : found) {
    if (!can_move(*node)) {
      return c10::str("its right-hand side needs ", target_name(*node), ", which cannot come before the gather");
    }
  }
  moved.insert(moved.end(), found.begin(), found.end());
  return {};
}

void GatherConsumers::take_largest_kind() {
  if (!refused_.empty()) {
    return;
  }
  std::vector<std::string> reasons;
  const auto leave = [&](const auto& why) {
    std::vector<Consumer> kept;
    for (auto& consumer : taken_) {
      const auto reason = why(consumer);
      if (reason.empty()) {
        kept.push_back(std::move(consumer));
      } else {
        reasons.push_back(text_of(*consumer.call.node) + ": " + reason);
      }
    }
    taken_ = std::move(kept);
  };
  leave([&](const Consumer& consumer) { return why_not_in_time(consumer, hoisted_); });
  // The fused operator takes matmuls of one kind, and one scale for the gathered tensor.
  const auto count_alike = [&](const Consumer& a) {
    return std::count_if(taken_.begin(), taken_.end(), [&](const Consumer& b) {
      return a.call.is_scaled == b.call.is_scaled && a.call.input_scale == b.call.input_scale;
    });
  };
  const auto most = std::max_element(taken_.begin(), taken_.end(), [&](const Consumer& a, const Consumer& b) {
    return count_alike(a) < count_alike(b);
  });
  if (most != taken_.end()) {
    const bool is_scaled = most->call.is_scaled;
    const auto* scale = most->call.input_scale;
    leave([&](const Consumer& consumer) -> std::string {
      if (consumer.call.is_scaled != is_scaled) {
        return is_scaled ? "it is not scaled, as others are" : "it is scaled, and others are not";
      }
      return consumer.call.input_scale == scale ? "" : "its left-hand side has another scale than that of others";
    });
    hoisted_.clear();
    for (const auto& consumer : taken_) {
      why_not_in_time(consumer, hoisted_);
    }
  }
  std::sort(hoisted_.begin(), hoisted_.end(), [&](const Node* a, const Node* b) {
    return rewriter_.order().number(a) < rewriter_.order().number(b);
  });
  if (!reasons.empty()) {
    left_ = left_.empty() ? reasons[0] : left_;
  }
  if (taken_.empty()) {
    refused_ = left_;
  }
}

std::vector<Node*> GatherConsumers::nodes_that_go() const {
  std::vector<Node*> candidates;
  for (const auto& consumer : taken_) {
    candidates.push_back(consumer.call.node);
    candidates.insert(candidates.end(), consumer.path.rbegin(), consumer.path.rend());
  }
  candidates.insert(candidates.end(), between_.rbegin(), between_.rend());
  std::vector<Node*> gone;
  std::unordered_set<const Node*> going;
  for (const auto& consumer : taken_) {
    going.insert(consumer.call.node);
    gone.push_back(consumer.call.node);
  }
  // From the last to the first, so that the uses of a view are seen before the view.
  std::sort(candidates.begin(), candidates.end(), [&](const Node* a, const Node* b) {
    return rewriter_.order().number(a) > rewriter_.order().number(b);
  });
  for (auto* node : candidates) {
    if (going.count(node) > 0) {
      continue;
    }
    // The results of casts and permutations that are applied to the shard come from the fused operator.
    const bool is_root = std::find(between_.begin(), between_.end(), node) != between_.end();
    const auto uses = rewriter_.uses(*node->output());
    if (is_root ||
        std::all_of(uses.begin(), uses.end(), [&](const Value::Use& use) { return going.count(use.node) > 0; })) {
      going.insert(node);
      gone.push_back(node);
    }
  }
  return gone;
}

std::optional<Layout> GatherConsumers::product_layout(const Consumer& consumer) const {
  const auto& root = *roots_[0];
  return root.layout ? layout_of_rows(root, *consumer.call.node->output(), root.tensor().dim()) : std::nullopt;
}

} // namespace weft::graph
