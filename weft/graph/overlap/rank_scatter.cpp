#include "weft/graph/overlap/rank_forms.h"

#include "weft/graph/analysis/call_arguments.h"
#include "weft/graph/analysis/rank_collective.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

namespace weft::graph {

namespace {

using Kind = Arrangement::Kind;

/// Follows the operand of a reduce-scatter backward through the nodes that rearrange the shards of one tensor.
class ScatterSearch {
 public:
  ScatterSearch(Node& node, const NodeNumbers& numbers, size_t& looked_at)
      : collective_(read_collective(node)), numbers_(numbers), looked_at_(looked_at) {
    scatter_.collective = &node;
    scatter_.full = collective_.input;
    scatter_.members = collective_.members;
    scatter_.group = collective_.group;
    scatter_.reduce_op = collective_.reduce_op;
    scatter_.refused = collective_.refused;
  }

  Scatter run() {
    if (!scatter_.refused.empty()) {
      return std::move(scatter_);
    }
    auto* shard = collective_.wait->output();
    const auto& input = collective_.input->tensor();
    if (input.dim() == 0 || !has_elements(input) ||
        !is_same(input.sizes, multiplied(shard->tensor().sizes, 0, scatter_.members))) {
      scatter_.refused = "the sizes of what is scattered do not fit";
      return std::move(scatter_);
    }
    nodes_ = {scatter_.collective, collective_.wait};
    auto* input_node = collective_.input->producer();
    if (input_node != nullptr) {
      joins_tensors(*input_node) ? find_split(*input_node) : find_chain();
    }
    if (scatter_.refused.empty()) {
      finish(shard);
    }
    return std::move(scatter_);
  }

 private:
  /// The tensor that a shard is split from, the node that splits it, and the copies of the shard in between.
  struct Source {
    Value* full = nullptr;
    Node* split = nullptr;
    std::vector<Node*> between; // from the last to the first
  };
  static Source source_of(Value* shard) {
    Source source;
    for (int passed = 0; passed < kLongestChain && shard->producer() != nullptr; ++passed) {
      auto* node = shard->producer();
      if (node->op() == nullptr || node->arguments().empty() || !node->arguments()[0].is_operand()) {
        break;
      }
      auto* before = node->operand(node->arguments()[0].operand());
      const auto kept = before->is_tensor() ? rearranged(*node, {Kind::Shard, 0}, 1) : std::vector<Arrangement>();
      if (kept.empty() || before->tensor().dtype != shard->tensor().dtype) {
        source.full = before->is_tensor() ? before : nullptr;
        source.split = node;
        break;
      }
      source.between.push_back(node);
      shard = before;
    }
    return source;
  }

  /// For shards that are joined along dim 0: takes the tensor that all of them are split from, if it is one tensor.
  void find_split(Node& join) {
    const auto tensors = CallArguments(join).tensors("tensors");
    const auto first = tensors.empty() ? Source() : source_of(tensors[0]);
    if (first.full == nullptr) {
      return;
    }
    const auto stated = CallArguments(*first.split).integer("dim");
    const auto dim = stated && *stated < 0 ? *stated + first.full->tensor().dim() : stated.value_or(-1);
    std::unordered_map<const Value*, Arrangement> held;
    std::vector<Arrangement> shards;
    std::vector<Node*> nodes = {&join};
    for (auto* tensor : tensors) {
      ++looked_at_;
      const auto source = source_of(tensor);
      if (source.full != first.full) {
        return; // a join of different tensors is an input like any other
      }
      if (source.split != nodes.back() && dim >= 0) {
        shards = rearranged(*source.split, {Kind::Joined, dim}, scatter_.members);
      }
      if (shards.empty()) {
        return;
      }
      const auto* split = source.between.empty() ? tensor : source.between.back()->operand(0);
      const auto output = std::find(source.split->outputs().begin(), source.split->outputs().end(), split);
      held.emplace(tensor, shards[output - source.split->outputs().begin()]);
      nodes.insert(nodes.end(), source.between.begin(), source.between.end());
      nodes.push_back(source.split);
    }
    const auto joined = joined_shards(join, scatter_.members, [&](const Value* value) { return held.at(value); });
    if (!joined.arrangement) {
      scatter_.refused = joined.refused;
    } else if (*joined.arrangement == Arrangement{Kind::Joined, 0}) {
      take(first.full, dim, nodes);
    }
  }

  /// For reshapes and permutations: takes the tensor whose shards along some dim they rearrange to shards along dim 0.
  void find_chain() {
    std::vector<Node*> chain; // from the last to the first
    auto* value = collective_.input;
    while (static_cast<int>(chain.size()) < kLongestChain && value->producer() != nullptr) {
      auto* node = value->producer();
      if (node->op() == nullptr || node->outputs().size() != 1 || node->arguments().empty() ||
          !node->arguments()[0].is_operand() || !node->operand(node->arguments()[0].operand())->is_tensor()) {
        break;
      }
      chain.push_back(node);
      value = node->operand(node->arguments()[0].operand());
    }
    // Takes the longest chain that rearranges shards.
    for (; !chain.empty(); chain.pop_back()) {
      auto* full = chain.back()->operand(chain.back()->arguments()[0].operand());
      for (int64_t dim = 0; dim < full->tensor().dim(); ++dim) {
        ++looked_at_;
        if (leads_to_input(chain, dim)) {
          take(full, dim, chain);
          return;
        }
      }
    }
  }
  bool leads_to_input(const std::vector<Node*>& chain, int64_t dim) const {
    Arrangement held{Kind::Joined, dim};
    for (auto node = chain.rbegin(); node != chain.rend(); ++node) {
      const auto next = rearranged(**node, held, scatter_.members);
      if (next.empty() || (*node)->output()->tensor().dtype != collective_.input->tensor().dtype) {
        return false;
      }
      held = next[0];
    }
    return held == Arrangement{Kind::Joined, 0};
  }

  void take(Value* full, int64_t dim, const std::vector<Node*>& nodes) {
    scatter_.full = full;
    scatter_.dim = dim;
    nodes_.insert(nodes.begin(), nodes.end());
  }

  void finish(Value* shard) {
    if (shard->tensor().dtype != scatter_.full->tensor().dtype ||
        !is_same(scatter_.full->tensor().sizes, multiplied(shard->tensor().sizes, scatter_.dim, scatter_.members))) {
      scatter_.refused = "the sizes of what is scattered do not fit";
      return;
    }
    scatter_.shard = shard;
    scatter_.unwaited = collective_.is_saved ? scatter_.collective->output() : nullptr;
    scatter_.nodes.assign(nodes_.begin(), nodes_.end());
    std::sort(scatter_.nodes.begin(), scatter_.nodes.end(), [&](const Node* a, const Node* b) {
      return numbers_.at(a) < numbers_.at(b);
    });
    scatter_.is_full_kept = is_used_elsewhere(*scatter_.full);
    for (const auto* node : scatter_.nodes) {
      for (const auto* output : node->outputs()) {
        const bool is_before = output != nullptr && output != shard && node != scatter_.collective;
        scatter_.is_full_kept = scatter_.is_full_kept || (is_before && is_used_elsewhere(*output));
      }
    }
  }
  bool is_used_elsewhere(const Value& value) {
    looked_at_ += value.uses().size();
    return std::any_of(
        value.uses().begin(), value.uses().end(), [&](const Value::Use& use) { return nodes_.count(use.node) == 0; });
  }

  static constexpr int kLongestChain = 4;

  Scatter scatter_;
  RankCollective collective_;
  const NodeNumbers& numbers_;
  size_t& looked_at_;
  std::unordered_set<Node*> nodes_;
};

} // namespace

Scatter scatter_of_rank(Node& node, const NodeNumbers& numbers, size_t& looked_at) {
  return ScatterSearch(node, numbers, looked_at).run();
}

Reduction reduction_of_rank(Node& node) {
  const auto collective = read_collective(node);
  Reduction reduction{.collective = &node, .input = collective.input};
  reduction.members = collective.members;
  reduction.group = collective.group;
  reduction.reduce_op = collective.reduce_op;
  reduction.refused = collective.refused;
  if (reduction.refused.empty()) {
    reduction.result = collective.wait->output();
    reduction.unwaited = collective.is_saved ? node.output() : nullptr;
    reduction.nodes = {&node, collective.wait};
  }
  return reduction;
}

} // namespace weft::graph
