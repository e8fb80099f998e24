#include "weft/redistribute/plan.h"

#include "weft/core/layout_algebra.h"

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
      ". Redistributing changes only the placements.");
  for (int64_t m = 0; m < source.mesh().ndim(); ++m) {
    TORCH_CHECK_VALUE(
        !(source.layout()[m].is_shard() && target.layout()[m].is_partial()),
        "[plan] a shard cannot become a partial value, but got ", source.layout()[m], " -> ", target.layout()[m],
        " on mesh dim ", source.mesh().name(m), " (", source, " to ", target.layout(), "). Redistribute to R first.");
  }
}

/// Finds the cheapest steps by a shortest-path search over layouts (A*).
///
/// Once every partial value that the target wants reduced is reduced, a single step is best: data that a detour
/// transfers could be transferred directly. So the search only decides how to reduce: over which mesh dims at once,
/// into replicas or shards, and after which slices, because ranks with the same value may each reduce a slice of it and
/// gather the slices afterwards.
class Search {
 public:
  Search(const TensorSpec& source, const TensorSpec& target, const LinkModel& links)
      : target_(target.layout()),
        context_{source.sizes(), static_cast<int64_t>(c10::elementSize(source.dtype())), source.mesh().shape(), links},
        tensor_ndim_(source.dim()),
        goal_(reduced_target(source.layout())),
        useful_dims_(useful_dims(source.layout())),
        goal_elements_(local_elements(goal_, context_)),
        least_latency_(links.links[0].latency_seconds) {
    for (const auto& link : links.links) {
      least_latency_ = std::min(least_latency_, link.latency_seconds);
      most_bytes_per_second_ = std::max(most_bytes_per_second_, link.bytes_per_second);
    }
    hashes_.push_back(source.layout().hash());
    nodes_.push_back({source.layout(), 0, remaining_cost(source.layout()), -1, {}, false});
  }

  std::vector<Step> run() {
    while (true) {
      const auto best = most_promising_node();
      nodes_[best].closed = true;
      const auto layout = nodes_[best].layout;
      const auto partial = partials_to_reduce(layout);
      if (partial.empty()) {
        return steps_by(best);
      }
      reduce(best, layout, partial);
      shard_replicas(best, layout);
      redistribute_shards(best, layout);
    }
  }

 private:
  struct Node {
    Layout layout;
    double cost;      // of the steps so far
    double remaining; // a lower bound
    int64_t previous;
    Step step;
    bool closed;
  };

  /// The target with R instead of the partial placements that MakePartial creates in the last step.
  Layout reduced_target(const Layout& source) const {
    return replicated_where(target_, [&](int64_t m) { return target_[m].is_partial() && source[m] != target_[m]; });
  }

  MeshDims partials_to_reduce(const Layout& layout) const {
    MeshDims dims;
    for (int64_t m = 0; m < layout.ndim(); ++m) {
      if (context_.mesh_shape[m] > 1 && layout[m].is_partial() && layout[m] != goal_[m]) {
        dims.push_back(m);
      }
    }
    return dims;
  }

  bool is_goal(const Layout& layout) const {
    return same_data(layout, goal_, context_.mesh_shape, tensor_ndim_);
  }

  /// The cost of the remaining steps: exact if only a single step remains, else a lower bound.
  double remaining_cost(const Layout& layout) const {
    const auto partial = partials_to_reduce(layout);
    if (partial.empty()) {
      return is_goal(layout)
          ? 0
          : weft::cost(redistribute_step(layout, goal_, context_.mesh_shape, tensor_ndim_), context_);
    }
    // Replicas may be sliced first at no cost. Then a rank reduces its shard and gets the other shards from other
    // ranks.
    auto held = local_elements(layout, context_);
    double terms = 1;
    bool joins = false;
    bool scatters = false;
    bool transfers = false;
    for (int64_t m = 0; m < layout.ndim(); ++m) {
      const auto size = static_cast<double>(context_.mesh_shape[m]);
      const bool is_partial = std::find(partial.begin(), partial.end(), m) != partial.end();
      terms *= is_partial ? size : 1;
      held /= layout[m].is_replicate() ? size : 1;
      joins = joins || (is_partial && !goal_[m].is_shard());
      scatters = scatters || (is_partial && goal_[m].is_shard());
      transfers = transfers || (layout[m].is_shard() && layout[m] != goal_[m] && size > 1);
    }
    const auto shard = held / terms;
    const auto elements = held - shard + std::max(0.0, goal_elements_ - shard);
    const auto bytes = elements * static_cast<double>(context_.element_bytes);
    return least_latency_ * ((joins && scatters) || transfers ? 2 : 1) + bytes / most_bytes_per_second_;
  }

  size_t most_promising_node() const {
    size_t best = nodes_.size();
    double least = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const auto total = nodes_[i].cost + nodes_[i].remaining;
      if (!nodes_[i].closed && total < least) {
        best = i;
        least = total;
      }
    }
    TORCH_INTERNAL_ASSERT(best < nodes_.size());
    return best;
  }

  void reach(size_t from, Step step) {
    const auto total = nodes_[from].cost + weft::cost(step, context_);
    if (total >= cheapest_known_) {
      return;
    }
    const auto hash = step.after.hash();
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (hashes_[i] != hash || nodes_[i].layout != step.after) {
        continue;
      }
      if (auto& node = nodes_[i]; total < node.cost) {
        node.cost = total;
        node.previous = static_cast<int64_t>(from);
        node.step = std::move(step);
        node.closed = false;
      }
      return;
    }
    const auto remaining = remaining_cost(step.after);
    if (total + remaining >= cheapest_known_) {
      return;
    }
    if (partials_to_reduce(step.after).empty()) {
      cheapest_known_ = total + remaining; // the remaining cost is exact here
    }
    auto after = step.after;
    hashes_.push_back(hash);
    nodes_.push_back({std::move(after), total, remaining, static_cast<int64_t>(from), std::move(step), false});
  }

  void reduce(size_t from, const Layout& layout, const MeshDims& partial) {
    // One step may reduce any of them, since the partial values of a layout commute. Tries all mesh dims at once first:
    // that is often the best choice, and it bounds the rest of the search.
    const auto all = (1U << partial.size()) - 1;
    for (uint32_t number = 0; number < all; ++number) {
      const auto subset = number == 0 ? all : number;
      MeshDims dims;
      for (size_t i = 0; i < partial.size(); ++i) {
        if ((subset >> i & 1U) != 0) {
          dims.push_back(partial[i]);
        }
      }
      auto reduced = layout;
      for (const auto m : dims) {
        reduced = reduced.with(m, Replicate());
      }
      reach(from, {StepKind::AllReduce, dims, layout, std::move(reduced)});
      // Shards that the target has are made in the target's shard order.
      auto order = dims;
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return goal_.shard_position(a) < goal_.shard_position(b);
      });
      scatter(from, {StepKind::ReduceScatter, dims, layout, layout}, order);
    }
  }

  /// Tries every way to scatter over the mesh dims in `order`.
  void scatter(size_t from, const Step& step, c10::ArrayRef<int64_t> order) {
    if (order.empty()) {
      reach(from, step);
      return;
    }
    for (const auto& placement : shards_for(order[0])) {
      auto next = step;
      next.after = step.after.with(order[0], placement);
      scatter(from, next, order.slice(1));
    }
  }

  /// The placements that a mesh dim may have in between: the shard of the target, or a shard of any useful tensor dim.
  Placements shards_for(int64_t m) const {
    Placements result;
    if (goal_[m].is_shard()) {
      result.push_back(goal_[m]);
    }
    for (const auto d : useful_dims_) {
      if (goal_[m] != Shard(d)) {
        result.push_back(Shard(d));
      }
    }
    return result;
  }

  /// The tensor dims to shard in between. Among the dims that neither source nor target shards, only the first one that
  /// all ranks divide evenly is tried, because others of this kind cost the same.
  c10::SmallVector<int64_t, 4> useful_dims(const Layout& source) const {
    int64_t all_ranks = 1;
    for (const auto size : context_.mesh_shape) {
      all_ranks *= size;
    }
    c10::SmallVector<int64_t, 4> dims;
    c10::SmallVector<int64_t, 4> free_dims;
    for (int64_t d = 0; d < tensor_ndim_; ++d) {
      if (context_.sizes[d] > 1) {
        const bool is_free = source.shard_order(d).empty() && goal_.shard_order(d).empty();
        (is_free ? free_dims : dims).push_back(d);
      }
    }
    const auto even =
        std::find_if(free_dims.begin(), free_dims.end(), [&](int64_t d) { return context_.sizes[d] % all_ranks == 0; });
    if (even != free_dims.end()) {
      dims.push_back(*even);
    } else {
      dims.append(free_dims.begin(), free_dims.end());
    }
    return dims;
  }

  void shard_replicas(size_t from, const Layout& layout) {
    for (int64_t m = 0; m < layout.ndim(); ++m) {
      if (!layout[m].is_replicate() || context_.mesh_shape[m] == 1) {
        continue;
      }
      for (const auto& placement : shards_for(m)) {
        reach(from, {StepKind::Slice, {m}, layout, layout.with(m, placement)});
      }
    }
  }

  /// Redistributes all but the partial mesh dims to the goal, before the partial values are reduced.
  void redistribute_shards(size_t from, const Layout& layout) {
    auto after = goal_;
    for (int64_t m = 0; m < layout.ndim(); ++m) {
      if (layout[m].is_partial() && layout[m] != goal_[m]) {
        after = after.with(m, layout[m]);
      }
    }
    if (after != layout) {
      reach(from, redistribute_step(layout, after, context_.mesh_shape, tensor_ndim_));
    }
  }

  /// The steps from the source to a node and from there to the target.
  std::vector<Step> steps_by(size_t last) const {
    std::vector<Step> steps;
    for (auto node = static_cast<int64_t>(last); nodes_[node].previous >= 0; node = nodes_[node].previous) {
      steps.push_back(nodes_[node].step);
    }
    std::reverse(steps.begin(), steps.end());
    if (const auto& end = nodes_[last].layout; end != goal_) {
      steps.push_back(redistribute_step(end, goal_, context_.mesh_shape, tensor_ndim_));
    }
    if (goal_ != target_) {
      steps.push_back({StepKind::MakePartial, changed_dims(goal_, target_), goal_, target_});
    }
    return merged_slices(std::move(steps));
  }

  static MeshDims changed_dims(const Layout& a, const Layout& b) {
    MeshDims dims;
    for (int64_t m = 0; m < a.ndim(); ++m) {
      if (a[m] != b[m] || a.shard_position(m) != b.shard_position(m)) {
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
  int64_t tensor_ndim_;
  Layout goal_;
  c10::SmallVector<int64_t, 4> useful_dims_;
  double goal_elements_;
  double least_latency_;
  double most_bytes_per_second_ = 0;
  double cheapest_known_ = std::numeric_limits<double>::infinity();
  std::vector<size_t> hashes_; // of the nodes' layouts
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
