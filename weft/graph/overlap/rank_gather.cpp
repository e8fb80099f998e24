#include "weft/graph/overlap/rank_forms.h"

#include "weft/core/dtype_text.h"
#include "weft/graph/analysis/rank_collective.h"

#include <c10/util/StringUtil.h>

#include <algorithm>
#include <map>

namespace weft::graph {

namespace {

using Kind = Arrangement::Kind;

/// Whether the output of a node has the bits of its operand, maybe viewed as another dtype.
bool keeps_bits(const Node* node) {
  if (node == nullptr || node->op() == nullptr) {
    return false;
  }
  const auto& schema = node->op()->schema();
  return schema.name() == "aten::alias" || schema.name() == "aten::detach" ||
      (schema.name() == "aten::view" && schema.overload_name() == "dtype");
}

/// Follows the result of a gather through the nodes whose outputs hold shards of it.
class GatherSearch {
 public:
  GatherSearch(Node& node, const NodeNumbers& numbers, size_t& looked_at)
      : collective_(read_collective(node)), numbers_(numbers), looked_at_(looked_at) {
    gather_.collective = &node;
    gather_.shard = collective_.input;
    gather_.members = collective_.members;
    gather_.group = collective_.group;
    gather_.refused = collective_.refused;
  }

  Gather run() {
    if (!gather_.refused.empty()) {
      return std::move(gather_);
    }
    const auto& shard = gather_.shard->tensor();
    auto* arrived = collective_.wait->output();
    if (shard.dim() == 0 || !has_elements(shard) ||
        !is_same(arrived->tensor().sizes, multiplied(shard.sizes, 0, gather_.members))) {
      gather_.refused = "the sizes of what is gathered do not fit";
      return std::move(gather_);
    }
    held_.emplace(gather_.collective->output(), Arrangement{Kind::Joined, 0});
    found_.push_back(gather_.collective->output());
    hold(arrived, {Kind::Joined, 0});
    while (!ahead_.empty()) {
      auto* node = ahead_.begin()->second;
      ahead_.erase(ahead_.begin());
      follow(*node);
    }
    choose();
    return std::move(gather_);
  }

 private:
  void hold(Value* value, Arrangement arrangement) {
    if (value == nullptr) {
      return;
    }
    held_.emplace(value, arrangement);
    found_.push_back(value);
    const bool is_shard = arrangement.kind == Kind::Shard || arrangement.kind == Kind::Slice;
    for (const auto& use : value->uses()) {
      ++looked_at_;
      if (joins_tensors(*use.node) ? is_shard : use.operand == 0) {
        ahead_.emplace(numbers_.at(use.node), use.node);
      }
    }
  }

  /// Follows a node. All of its operands that hold shards are known, because nodes are followed in order.
  void follow(Node& node) {
    if (!joins_tensors(node)) {
      const auto from = held_.find(node.operand(0));
      if (from == held_.end()) {
        return;
      }
      const auto outputs = rearranged(node, from->second, gather_.members);
      for (size_t i = 0; i < outputs.size(); ++i) {
        hold(node.output(i), outputs[i]);
      }
      return;
    }
    const auto joined = joined_shards(node, gather_.members, [&](const Value* value) {
      const auto found = held_.find(value);
      return found == held_.end() ? std::nullopt : std::optional(found->second);
    });
    looked_at_ += joined.looked_at;
    if (joined.arrangement) {
      hold(node.output(), *joined.arrangement);
    } else {
      refused_joins_.insert(&node);
      why_refused_ = why_refused_.empty() ? joined.refused : why_refused_;
    }
  }

  /// Whether a value that holds shards has a use other than rearranging them.
  bool is_used(const Value& value, Kind kind) {
    for (const auto& use : value.uses()) {
      ++looked_at_;
      const bool is_full = kind == Kind::Joined || kind == Kind::Stacked;
      if (!is_full && refused_joins_.count(use.node) > 0) {
        continue;
      }
      const auto& outputs = use.node->outputs();
      const auto arranged =
          std::find_if(outputs.begin(), outputs.end(), [&](const Value* output) { return held_.count(output) > 0; });
      if (arranged == outputs.end()) {
        if (is_full) {
          return true;
        }
        why_sliced_ = why_sliced_.empty() ? slice_text(value) : why_sliced_;
      } else if (held_.at(*arranged).kind == Kind::Stacked && used_.count(*arranged) > 0) {
        return true; // a use of the stack is one of this value; a use of shards that are joined again is not
      }
    }
    return false;
  }

  std::string slice_text(const Value& value) const {
    const auto& held = held_.at(&value);
    return held.kind == Kind::Shard
        ? c10::str("the shard of member ", held.at, " is used by itself")
        : c10::str("only a slice of it is used, of sizes [", c10::Join(",", texts(value.tensor().sizes)), "]");
  }
  static std::vector<std::string> texts(const Sizes& sizes) {
    std::vector<std::string> result;
    for (const auto& size : sizes) {
      result.push_back(size.to_string());
    }
    return result;
  }

  void choose() {
    Value* full = nullptr;
    // From the last to the first, so that the values that are computed from a value are known.
    for (size_t i = found_.size() - 1; i > 0; --i) {
      const auto& held = held_.at(found_[i]);
      if (!is_used(*found_[i], held.kind)) {
        continue;
      }
      used_.insert(found_[i]);
      if (full == nullptr && held.kind == Kind::Joined) {
        full = found_[i];
      }
    }
    gather_.refused = why_refused_.empty() ? why_sliced_ : why_refused_;
    if (full != nullptr || gather_.refused.empty()) {
      gather_.refused.clear();
      finish(full == nullptr ? collective_.wait->output() : full);
    }
  }

  void finish(Value* full) {
    gather_.dim = held_.at(full).at;
    take_dtype(*full);
    if (gather_.refused.empty() &&
        !is_same(full->tensor().sizes, multiplied(gather_.shard->tensor().sizes, gather_.dim, gather_.members))) {
      gather_.refused = "the sizes of what is gathered do not fit";
    }
    if (!gather_.refused.empty()) {
      return;
    }
    gather_.full = full;
    collect_nodes(full);
  }

  /// Finds the shard that has the dtype of the full tensor: `shard` may have been viewed as another dtype to be sent.
  void take_dtype(const Value& full) {
    const auto wanted = full.tensor().dtype;
    if (wanted == gather_.shard->tensor().dtype) {
      return;
    }
    // The value before its bits were viewed as the dtype of the collective.
    auto* before = gather_.shard;
    while (before->tensor().dtype != wanted && keeps_bits(before->producer())) {
      before = before->producer()->operand(0);
    }
    if (before->tensor().dtype == wanted) {
      gather_.shard = before;
    } else if (c10::elementSize(wanted) == c10::elementSize(gather_.shard->tensor().dtype)) {
      gather_.viewed_as = wanted;
    } else {
      gather_.refused = c10::str(
          "bits of ", dtype_text(gather_.shard->tensor().dtype), " are gathered and taken for ", dtype_text(wanted));
    }
  }

  void collect_nodes(Value* full) {
    std::unordered_set<const Node*> seen = {full->producer()};
    gather_.nodes = {full->producer()};
    for (size_t next = 0; next < gather_.nodes.size(); ++next) {
      const auto& node = *gather_.nodes[next];
      for (size_t i = 0; i < node.operand_count(); ++i) {
        ++looked_at_;
        auto* producer = node.operand(i)->producer();
        if (held_.count(node.operand(i)) > 0 && seen.insert(producer).second) {
          gather_.nodes.push_back(producer);
        }
      }
    }
    std::sort(gather_.nodes.begin(), gather_.nodes.end(), [&](const Node* a, const Node* b) {
      return numbers_.at(a) < numbers_.at(b);
    });
    for (const auto* node : gather_.nodes) {
      for (auto* output : node->outputs()) {
        if (output == nullptr || output == full) {
          continue;
        }
        looked_at_ += output->uses().size();
        const bool is_kept = std::any_of(output->uses().begin(), output->uses().end(), [&](const Value::Use& use) {
          return seen.count(use.node) == 0;
        });
        if (is_kept) {
          gather_.kept.push_back({output, held_.at(output)});
        }
      }
    }
  }

  Gather gather_;
  RankCollective collective_;
  const NodeNumbers& numbers_;
  size_t& looked_at_;
  std::map<size_t, Node*> ahead_; // nodes to follow, in the order of the graph
  std::vector<Value*> found_;     // values that hold shards, in that order, the collective's own result first
  std::unordered_map<const Value*, Arrangement> held_;
  std::unordered_set<const Value*> used_;
  std::unordered_set<const Node*> refused_joins_;
  std::string why_refused_;
  std::string why_sliced_;
};

} // namespace

Gather gather_of_rank(Node& node, const NodeNumbers& numbers, size_t& looked_at) {
  return GatherSearch(node, numbers, looked_at).run();
}

} // namespace weft::graph
