#include "weft/graph/overlap/collective_forms.h"

#include "weft/graph/analysis/graph_builder.h"
#include "weft/graph/analysis/local_sizes.h"
#include "weft/graph/overlap/rank_forms.h"
#include "weft/graph/overlap/step_forms.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

namespace weft::graph {

namespace {

class CollectiveSearch {
 public:
  explicit CollectiveSearch(const Program& program)
      : program_(program), numbers_(number_nodes(*program.graph)), writes_(*program.graph) {}

  CollectiveForms run() {
    for (auto* node = program_.graph->first(); node != nullptr; node = node->next()) {
      if (node->step() != nullptr && program_.mesh) {
        add_step(*node);
      } else if (node->op() != nullptr) {
        add_call(*node);
      }
    }
    return std::move(forms_);
  }

 private:
  void add_step(Node& node) {
    const auto kind = node.step()->kind;
    if (kind == StepKind::AllGather) {
      add(gather_of_step(node, *program_.mesh));
    } else if (kind == StepKind::ReduceScatter) {
      add(scatter_of_step(node, *program_.mesh));
    } else if (kind == StepKind::AllReduce) {
      add(reduction_of_step(node, *program_.mesh));
    }
  }

  void add_call(Node& node) {
    constexpr std::string_view kNamespace = "_c10d_functional::";
    const std::string_view name = node.op()->schema().name();
    if (!name.starts_with(kNamespace)) {
      return;
    }
    const auto called = name.substr(kNamespace.size());
    if (called.starts_with("all_gather_into_tensor")) {
      add(gather_of_rank(node, numbers_, forms_.looked_at));
    } else if (called.starts_with("reduce_scatter_tensor")) {
      add(scatter_of_rank(node, numbers_, forms_.looked_at));
    } else if (called.starts_with("all_reduce")) {
      add(reduction_of_rank(node));
    }
  }

  void add(Gather gather) {
    if (gather.refused.empty() && is_written(gather.shard, numbers_.at(gather.collective), gather.full, gather.nodes)) {
      gather.refused = "it is written to in between";
      gather.full = nullptr;
    }
    forms_.gathers.push_back(std::move(gather));
  }
  void add(Scatter scatter) {
    if (scatter.refused.empty() && is_written(scatter.full, made(*scatter.full), scatter.shard, scatter.nodes)) {
      scatter.refused = "it is written to in between";
      scatter.shard = nullptr;
    }
    forms_.scatters.push_back(std::move(scatter));
  }
  void add(Reduction reduction) {
    if (reduction.members == 0) {
      reduction.members = members_along(reduction.group);
    }
    if (reduction.refused.empty() &&
        is_written(reduction.input, made(*reduction.input), reduction.result, reduction.nodes)) {
      reduction.refused = "it is written to in between";
      reduction.result = nullptr;
    }
    forms_.reductions.push_back(std::move(reduction));
  }

  /// The number of members of a group that is named by mesh dims; 0 where it has another name.
  int64_t members_along(const std::string& group) const {
    if (!program_.mesh) {
      return 0;
    }
    const auto& names = program_.mesh->names();
    int64_t members = 1;
    for (const auto name : c10::split(group, ',')) {
      const auto found = std::find(names.begin(), names.end(), name);
      members *= found == names.end() ? 0 : program_.mesh->size(found - names.begin());
    }
    return members;
  }

  size_t made(const Value& value) const {
    return value.producer() == nullptr ? 0 : numbers_.at(value.producer());
  }

  /// Whether the input, the result or a value in between is written to, from the node number `first` up to the last use
  /// of the result. For a scatter, `first` is the producer of its input, which must not be written to before the
  /// scatter.
  bool is_written(const Value* from, size_t first, const Value* to, const std::vector<Node*>& nodes) {
    auto last = numbers_.at(nodes.back());
    for (const auto& use : to->uses()) {
      last = std::max(last, numbers_.at(use.node));
    }
    const auto number_of = [this](const Node* node) { return numbers_.at(node); };
    const auto is_written = [&](const Value* value) {
      return value != nullptr && value->is_tensor() &&
          writes_.next_write(value, first, number_of).value_or(last) < last;
    };
    return is_written(from) || std::any_of(nodes.begin(), nodes.end(), [&](const Node* node) {
             return std::any_of(node->outputs().begin(), node->outputs().end(), is_written);
           });
  }

  const Program& program_;
  NodeNumbers numbers_;
  MemoryWrites writes_;
  CollectiveForms forms_;
};

} // namespace

CollectiveForms find_collectives(const Program& program) {
  return CollectiveSearch(program).run();
}

Value* current_shard(const Gather& gather) {
  const auto wanted = gather.shard->tensor().dtype;
  auto* shard = gather.collective->operand(0);
  while (shard->tensor().dtype != wanted) {
    shard = shard->producer()->operand(0); // nodes that view the bits as another dtype are not replaced
  }
  return shard;
}

Value* remake(const Gather& gather, const Gather::Kept& kept, Value* full, Node* before) {
  using Kind = Arrangement::Kind;
  GraphBuilder build(before->graph(), before);
  build.set_origin(gather.collective->origin);
  const auto wanted = kept.arrangement;
  const auto& type = kept.value->tensor();
  const auto typed = [&](Sizes sizes) { return contiguous_type(type.dtype, std::move(sizes), type.device); };
  if (full->tensor().dtype != type.dtype) {
    auto sizes = full->tensor().sizes;
    const auto bytes = sizes.back() * Size(static_cast<int64_t>(c10::elementSize(full->tensor().dtype)));
    sizes.back() = *quotient(bytes, static_cast<int64_t>(c10::elementSize(type.dtype)));
    full = build.call("aten::view.dtype", {full, c10::IValue(type.dtype)}, typed(std::move(sizes)));
  }
  if (wanted == Arrangement{Kind::Joined, gather.dim}) {
    return full;
  }
  auto shard = full->tensor().sizes;
  const auto length = *quotient(shard[gather.dim], gather.members);
  shard[gather.dim] = length;
  if (wanted.kind == Kind::Shard) {
    auto view = typed(shard);
    view.strides = full->tensor().strides;
    return build.call(
        "aten::slice.Tensor", {full, c10::IValue(gather.dim), length * Size(wanted.at), length * Size(wanted.at + 1)},
        std::move(view));
  }
  auto shard_type = typed(shard);
  shard_type.strides = full->tensor().strides;
  auto shards = build.list(
      "aten::split.Tensor", {full, length, c10::IValue(gather.dim)},
      std::vector<TensorType>(gather.members, shard_type));
  if (wanted.kind == Kind::Stacked) {
    // Compilers of core ATen have no aten::stack.
    auto stacked = shard_type;
    stacked.sizes.insert(stacked.sizes.begin() + wanted.at, Size(1));
    stacked.strides.insert(stacked.strides.begin() + wanted.at, Size(1));
    for (auto& each : shards) {
      each = build.call("aten::unsqueeze", {each, c10::IValue(wanted.at)}, stacked);
    }
  }
  return build.call("aten::cat", {shards, c10::IValue(wanted.at)}, typed(type.sizes));
}

} // namespace weft::graph
