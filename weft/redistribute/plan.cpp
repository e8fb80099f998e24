#include "weft/redistribute/plan.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>

namespace weft {

namespace {

void check_ends(const TensorSpec& source, const TensorSpec& target) {
  TORCH_CHECK_VALUE(
      source.mesh() == target.mesh(), "[plan] source and target must be on the same mesh, but got ", source, " and ",
      target, ". To change the mesh, gather on the one and distribute on the other.");
  TORCH_CHECK_VALUE(
      source.sizes() == target.sizes() && source.dtype() == target.dtype(),
      "[plan] source and target must have the same shape and dtype, but got ", source, " and ", target,
      ". Redistributing changes the placements alone.");
  for (int64_t m = 0; m < source.mesh().ndim(); ++m) {
    TORCH_CHECK_VALUE(
        !(source.layout()[m].is_shard() && target.layout()[m].is_partial()),
        "[plan] a shard cannot become a partial value, but got ", source.layout()[m], " -> ", target.layout()[m],
        " on mesh dim ", source.mesh().name(m), " (", source, " to ", target.layout(), "). Redistribute to R first.");
  }
}

/// Shortest path over layouts.
///
/// Once everything is reduced that the target wants reduced, one move is best: data that a detour brings is data that
/// the direct move may bring. What remains to be found is how to reduce: over which mesh dims at once, into replicas or
/// shards, and after which cuts, since ranks that hold the same may each reduce a part and share it afterwards.
class Search {
 public:
  Search(const TensorSpec& source, const TensorSpec& target, const LinkModel& links)
      : target_(target.layout()),
        context_{source.sizes(), static_cast<int64_t>(c10::elementSize(source.dtype())), source.mesh().shape(), links},
        tensor_rank_(source.dim()),
        goal_(reduced_target(source.layout())) {
    nodes_.push_back({source.layout(), 0, -1, {}, false});
  }

  std::vector<Step> run() {
    while (true) {
      const auto best = cheapest_open_node();
      nodes_[best].closed = true;
      if (same_data(nodes_[best].layout, goal_, context_.mesh_shape, tensor_rank_)) {
        return steps_to(best);
      }
      expand(best);
    }
  }

 private:
  struct Node {
    Layout layout;
    double cost;
    int64_t previous;
    Step step;
    bool closed;
  };

  /// The target before replicas are turned into partial values.
  Layout reduced_target(const Layout& source) const {
    auto goal = target_;
    for (int64_t m = 0; m < goal.ndim(); ++m) {
      if (goal[m].is_partial() && source[m] != goal[m]) {
        goal = goal.with(m, Replicate());
      }
    }
    return goal;
  }

  int64_t cheapest_open_node() const {
    int64_t best = -1;
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (!nodes_[i].closed && (best < 0 || nodes_[i].cost < nodes_[best].cost)) {
        best = static_cast<int64_t>(i);
      }
    }
    TORCH_INTERNAL_ASSERT(best >= 0);
    return best;
  }

  void reach(int64_t from, Step step) {
    const auto total = nodes_[from].cost + weft::cost(step, context_);
    for (auto& node : nodes_) {
      if (node.layout == step.after) {
        if (total < node.cost) {
          node.cost = total;
          node.previous = from;
          node.step = std::move(step);
        }
        return;
      }
    }
    auto after = step.after;
    nodes_.push_back({std::move(after), total, from, std::move(step), false});
  }

  bool must_be_reduced(const Layout& layout, int64_t m) const {
    return context_.mesh_shape[m] > 1 && layout[m].is_partial() && layout[m] != goal_[m];
  }

  void expand(int64_t from) {
    const auto layout = nodes_[from].layout;
    MeshDims partial;
    for (int64_t m = 0; m < layout.ndim(); ++m) {
      if (must_be_reduced(layout, m)) {
        partial.push_back(m);
      }
    }
    if (partial.empty()) {
      reach(from, move_step(layout, goal_, context_.mesh_shape, tensor_rank_));
      return;
    }
    reduce(from, layout, partial);
    cut_replicas(from, layout);
  }

  void reduce(int64_t from, const Layout& layout, const MeshDims& partial) {
    for (uint32_t subset = 1; subset < (1U << partial.size()); ++subset) {
      MeshDims dims;
      for (size_t i = 0; i < partial.size(); ++i) {
        if ((subset >> i & 1U) != 0) {
          dims.push_back(partial[i]);
        }
      }
      if (!std::all_of(dims.begin(), dims.end(), [&](int64_t m) { return layout[m] == layout[dims[0]]; })) {
        continue;
      }
      auto replicated = layout;
      for (const auto m : dims) {
        replicated = replicated.with(m, Replicate());
      }
      reach(from, {StepKind::AllReduce, dims, layout, std::move(replicated)});
      if (std::all_of(dims.begin(), dims.end(), [&](int64_t m) { return goal_[m].is_shard(); })) {
        reach(from, {StepKind::ReduceScatter, dims, layout, scattered(layout, dims)});
      }
    }
  }

  Layout scattered(Layout layout, MeshDims dims) const {
    std::stable_sort(dims.begin(), dims.end(), [&](int64_t a, int64_t b) { return goal_.turn(a) < goal_.turn(b); });
    for (const auto m : dims) {
      layout = layout.with(m, goal_[m]);
    }
    return layout;
  }

  void cut_replicas(int64_t from, const Layout& layout) {
    for (int64_t m = 0; m < layout.ndim(); ++m) {
      if (!layout[m].is_replicate() || context_.mesh_shape[m] == 1) {
        continue;
      }
      if (goal_[m].is_shard()) {
        reach(from, {StepKind::Slice, {m}, layout, layout.with(m, goal_[m])});
        continue;
      }
      for (int64_t d = 0; d < tensor_rank_; ++d) {
        if (context_.sizes[d] > 1) {
          reach(from, {StepKind::Slice, {m}, layout, layout.with(m, Shard(d))});
        }
      }
    }
  }

  std::vector<Step> steps_to(int64_t node) const {
    std::vector<Step> steps;
    const auto& end = nodes_[node].layout;
    for (; nodes_[node].previous >= 0; node = nodes_[node].previous) {
      steps.push_back(nodes_[node].step);
    }
    std::reverse(steps.begin(), steps.end());
    if (end != goal_) {
      steps.push_back(move_step(end, goal_, context_.mesh_shape, tensor_rank_));
    }
    if (goal_ != target_) {
      steps.push_back({StepKind::MakePartial, changed_dims(goal_, target_), goal_, target_});
    }
    return merged_slices(std::move(steps));
  }

  static MeshDims changed_dims(const Layout& a, const Layout& b) {
    MeshDims dims;
    for (int64_t m = 0; m < a.ndim(); ++m) {
      if (a[m] != b[m] || a.turn(m) != b.turn(m)) {
        dims.push_back(m);
      }
    }
    return dims;
  }

  static std::vector<Step> merged_slices(std::vector<Step> steps) {
    std::vector<Step> result;
    for (auto& step : steps) {
      if (step.kind == StepKind::Slice && !result.empty() && result.back().kind == StepKind::Slice) {
        auto& last = result.back();
        last.after = std::move(step.after);
        last.mesh_dims = changed_dims(last.before, last.after);
      } else {
        result.push_back(std::move(step));
      }
    }
    return result;
  }

  const Layout& target_;
  CostContext context_;
  int64_t tensor_rank_;
  Layout goal_;
  std::vector<Node> nodes_;
};

CostContext cost_context(const Plan& plan, const LinkModel& links) {
  return {
      plan.source->sizes(), static_cast<int64_t>(c10::elementSize(plan.source->dtype())), plan.source->mesh().shape(),
      links};
}

} // namespace

std::string Plan::to_string() const {
  if (steps.empty()) {
    return "nothing";
  }
  std::string text;
  for (const auto& step : steps) {
    text += (text.empty() ? "" : "\n") + step.to_string(source->mesh());
  }
  return text;
}

Plan plan(const SpecPtr& source, const SpecPtr& target, const LinkModel& links) {
  check_ends(*source, *target);
  if (source->layout() == target->layout()) {
    return {source, target, {}};
  }
  return {source, target, Search(*source, *target, links).run()};
}

Plan plan(const SpecPtr& source, const SpecPtr& target) {
  return plan(source, target, LinkModel::for_mesh(source->mesh()));
}

double cost(const Plan& plan, const LinkModel& links) {
  const auto context = cost_context(plan, links);
  double total = 0;
  for (const auto& step : plan.steps) {
    total += cost(step, context);
  }
  return total;
}

double cost(const Plan& plan) {
  return cost(plan, LinkModel::for_mesh(plan.source->mesh()));
}

double received_bytes(const Plan& plan) {
  const auto links = LinkModel::for_mesh(plan.source->mesh());
  const auto context = cost_context(plan, links);
  double total = 0;
  for (const auto& step : plan.steps) {
    total += received_bytes(step, context);
  }
  return total;
}

} // namespace weft
