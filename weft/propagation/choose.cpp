#include "weft/propagation/choose.h"

#include "weft/core/layout_algebra.h"
#include "weft/propagation/all_strategies.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

namespace weft {

namespace {

/// Far more than any transfer costs, so that a parameter is redistributed only if no other strategy is possible.
constexpr double kStationarySeconds = 1e6;

/// The cost that a plan has later, where it moves shards to another tensor dim or strides, or reduces into shards: the result
/// then has a layout that its neighbours do not have, and one collective more takes it back. Replicas need none, so that a small
/// tensor is gathered or all-reduced instead; for a large one the bytes decide.
double return_seconds(const Plan& plan) {
  const auto links = LinkModel::for_mesh(plan.source->mesh());
  double seconds = 0;
  for (const auto& step : plan.steps) {
    for (const auto m : step.mesh_dims) {
      if (!step.before[m].is_replicate() && step.after[m].is_shard() && step.before[m] != step.after[m]) {
        seconds = std::max(seconds, links.links[m].latency_seconds);
      }
    }
  }
  return seconds;
}

/// The use of one mesh dim in a call.
struct Role {
  enum class Kind : uint8_t { Replicate, Shard, Linear, Monotone, Listed };
  Kind kind = Kind::Replicate;
  Rule::Factor factor = 0;                         // the factor that is sharded
  int64_t split = 1;                               // the split factor of the shard
  std::optional<Placement> unequal = std::nullopt; // of a shard with unequal blocks or ragged, along any dim
  size_t linear_set = 0;
  ReduceOp op = ReduceOp::Sum;     // of the partial operands and, of a linear role, the outputs
  int64_t operand = 0;             // the partial one of a monotone role
  ReduceOp op_out = ReduceOp::Max; // of the outputs of a monotone role
  size_t listed = 0;               // the strategy of Rule::listed
};

int64_t product(c10::ArrayRef<Rule::Factor> factors, const std::vector<int64_t>& sizes) {
  int64_t result = 1;
  for (const auto factor : factors) {
    result *= sizes[factor];
  }
  return result;
}

/// Expands a rule over a mesh: tries all combinations of one role per mesh dim and keeps the cheapest.
class Chooser {
 public:
  Chooser(const Rule& rule, c10::ArrayRef<PlacedOperand> operands, c10::ArrayRef<StoredOutput> stored)
      : rule_(rule),
        operands_(operands),
        stored_(stored),
        mesh_(operands[0].spec->mesh()),
        known_costs_(operands.size()) {
    for (int64_t m = 0; m < mesh_.ndim(); ++m) {
      roles_.push_back(roles_of(m));
    }
    orders_ = present_orders();
  }

  std::optional<Strategy> best() {
    std::vector<Role> chosen(mesh_.ndim());
    extend(chosen, 0);
    return best_;
  }

  /// Every strategy but the replicated one, whatever the operands' layouts and the costs.
  std::vector<Strategy> all() {
    lists_all_ = true;
    for (int64_t m = 0; m < mesh_.ndim(); ++m) {
      roles_[m] = roles_of(m);
    }
    std::vector<Role> chosen(mesh_.ndim());
    extend(chosen, 0);
    return std::move(all_);
  }

 private:
  /// The shard orders to try: the ascending order of mesh dims, and the orders of the operands' layouts.
  std::vector<MeshDims> present_orders() const {
    MeshDims ascending(mesh_.ndim());
    std::iota(ascending.begin(), ascending.end(), int64_t{0});
    std::vector<MeshDims> orders = {ascending};
    for (const auto& operand : operands_) {
      const auto& layout = operand.spec->layout();
      if (!layout.has_default_order()) {
        auto order = ascending;
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
          return layout.shard_position(a) < layout.shard_position(b);
        });
        orders.push_back(std::move(order));
      }
    }
    return orders;
  }

  std::vector<Role> roles_of(int64_t m) const {
    std::vector<Role> roles = {Role{}};
    for (size_t f = 0; f < rule_.sizes.size(); ++f) {
      const auto factor = static_cast<Rule::Factor>(f);
      if (may_be_sharded(factor)) {
        roles.push_back({.kind = Role::Kind::Shard, .factor = factor});
        const bool is_looked_up = rule_.lookup && rule_.lookup->factor == factor;
        for (const auto split : is_looked_up ? std::vector<int64_t>{} : present_splits(m, factor)) {
          roles.push_back({.kind = Role::Kind::Shard, .factor = factor, .split = split});
        }
        for (const auto& unequal : is_looked_up ? std::vector<Placement>{} : present_unequal_shards(m, factor)) {
          roles.push_back({.kind = Role::Kind::Shard, .factor = factor, .unequal = unequal});
        }
      }
    }
    for (size_t i = 0; i < rule_.linear.size(); ++i) {
      for (const auto op : partial_ops(m, rule_.linear[i])) {
        roles.push_back({.kind = Role::Kind::Linear, .linear_set = i, .op = op});
      }
    }
    add_monotone_roles(m, rule_.increasing, /*reverses=*/false, roles);
    add_monotone_roles(m, rule_.decreasing, /*reverses=*/true, roles);
    for (size_t i = 0; i < rule_.listed.size(); ++i) {
      roles.push_back({.kind = Role::Kind::Listed, .listed = i});
    }
    return roles;
  }

  /// Adds the roles that pass a maximum or minimum of one of the operands on.
  void add_monotone_roles(int64_t m, const std::vector<int64_t>& operands, bool reverses, std::vector<Role>& roles)
      const {
    for (const auto operand : operands) {
      const auto& present = operands_[operand].spec->layout()[m];
      for (const auto op : {ReduceOp::Max, ReduceOp::Min}) {
        if (lists_all_ || present == Partial(op)) {
          const auto op_out = !reverses ? op : op == ReduceOp::Max ? ReduceOp::Min : ReduceOp::Max;
          roles.push_back({.kind = Role::Kind::Monotone, .op = op, .operand = operand, .op_out = op_out});
        }
      }
    }
  }

  bool may_be_sharded(Rule::Factor factor) const {
    const auto has = [&](const Rule::Dims& dims) { return Rule::has(dims, factor); };
    return !rule_.is_unsharded(factor) && (rule_.sizes[factor] > 1 || is_sharded(factor)) &&
        (std::any_of(rule_.inputs.begin(), rule_.inputs.end(), has) ||
         (rule_.lookup && rule_.lookup->factor == factor));
  }

  /// Whether an operand is sharded along the factor now, even if it has one element, and all outputs have the factor.
  bool is_sharded(Rule::Factor factor) const {
    for (const auto& dims : rule_.outputs) {
      if (!Rule::has(dims, factor)) {
        return false;
      }
    }
    for (size_t i = 0; i < operands_.size(); ++i) {
      for (const auto& placement : operands_[i].spec->placements()) {
        if (placement.is_shard() && rule_.inputs[i][placement.dim()] == Rule::Dim{factor}) {
          return true;
        }
      }
    }
    return false;
  }

  /// The split factors of this factor by which operands are sharded over a mesh dim now: a dim (a b) that is SS(d, 4),
  /// where a has size 2, is b split by 2.
  std::vector<int64_t> present_splits(int64_t m, Rule::Factor factor) const {
    std::vector<int64_t> splits;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const auto& placement = operands_[i].spec->layout()[m];
      if (!placement.is_strided() || placement.has_unequal_blocks()) {
        continue;
      }
      const c10::ArrayRef<Rule::Factor> dim(rule_.inputs[i][placement.dim()]);
      const auto* found = std::find(dim.begin(), dim.end(), factor);
      const auto slower = product(dim.slice(0, found - dim.begin()), rule_.sizes);
      if (found == dim.end() || placement.split_factor() % slower != 0) {
        continue;
      }
      const auto split = placement.split_factor() / slower;
      if (split > 1 && std::find(splits.begin(), splits.end(), split) == splits.end()) {
        splits.push_back(split);
      }
    }
    return splits;
  }

  /// The ragged shards, and those with unequal blocks, that operands have over a mesh dim now, along dims of which this factor is
  /// the slowest.
  std::vector<Placement> present_unequal_shards(int64_t m, Rule::Factor factor) const {
    std::vector<Placement> found;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const auto& placement = operands_[i].spec->layout()[m];
      if (!placement.has_unequal_blocks() && !placement.is_ragged()) {
        continue;
      }
      const auto& dim = rule_.inputs[i][placement.dim()];
      const auto blocks = placement.along(0);
      if (!dim.empty() && dim[0] == factor && std::find(found.begin(), found.end(), blocks) == found.end()) {
        found.push_back(blocks);
      }
    }
    return found;
  }

  /// The ops of the partial values that operands of a linear set have on a mesh dim now.
  std::vector<ReduceOp> partial_ops(int64_t m, const std::vector<int64_t>& set) const {
    std::vector<ReduceOp> ops;
    if (lists_all_) {
      ops = rule_.linear_in_any_op
          ? std::vector{ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max, ReduceOp::Min, ReduceOp::Product}
          : rule_.linear_op ? std::vector{*rule_.linear_op}
                            : std::vector{ReduceOp::Sum, ReduceOp::Avg};
    }
    for (const auto i : set) {
      const auto& placement = operands_[i].spec->layout()[m];
      if (!placement.is_partial()) {
        continue;
      }
      const auto op = placement.reduce_op();
      const bool is_linear = rule_.linear_op ? op == *rule_.linear_op : op == ReduceOp::Sum || op == ReduceOp::Avg;
      const bool passes = rule_.linear_in_any_op || is_linear;
      if (passes && std::find(ops.begin(), ops.end(), op) == ops.end()) {
        ops.push_back(op);
      }
    }
    return ops;
  }

  void extend(std::vector<Role>& chosen, int64_t m) {
    if (m == mesh_.ndim()) {
      consider(chosen, orders_[0]);
      for (size_t i = 1; i < orders_.size() && !rule_.lookup; ++i) {
        consider(chosen, orders_[i]); // a lookup supports only the default order
      }
      return;
    }
    for (const auto& role : roles_[m]) {
      chosen[m] = role;
      extend(chosen, m + 1);
    }
  }

  /// The placement of a tensor whose factor is sharded; empty if no placement has these shards.
  std::optional<Placement> placement(
      const Rule::Dims& dims,
      const Role& role,
      int64_t ranks,
      const std::vector<int64_t>& sizes) const {
    for (size_t d = 0; d < dims.size(); ++d) {
      const auto found = std::find(dims[d].begin(), dims[d].end(), role.factor);
      if (found == dims[d].end()) {
        continue;
      }
      const c10::ArrayRef<Rule::Factor> all(dims[d]);
      const auto position = static_cast<size_t>(found - dims[d].begin());
      const auto slower = product(all.slice(0, position), sizes);
      const auto faster = product(all.slice(position + 1), sizes);
      const auto size = sizes[role.factor];
      if (role.unequal) {
        const bool has_placement = slower == 1 && (faster == 1 || divides_blocks(size, ranks, *role.unequal));
        return has_placement ? std::optional(role.unequal->along(static_cast<int64_t>(d))) : std::nullopt;
      }
      const bool is_even = size % role.split == 0 && (size / role.split) % ranks == 0;
      if (dims[d].size() > 1 && !is_even && (faster > 1 || role.split > 1)) {
        return std::nullopt;
      }
      return StridedShard(static_cast<int64_t>(d), slower * role.split);
    }
    return Replicate();
  }

  enum class Tensors : uint8_t { Inputs, Outputs, SizeArguments };

  /// Whether operand `i` must be partial when its linear set passes partial values. With an average, maximum or minimum
  /// a replicated operand is kept: (avg of x) + 1 is the avg of (x + 1). This also allows the integer 1, which could
  /// not be P(avg).
  bool is_term(size_t i, const Role& role, int64_t m) const {
    if (!contains(rule_.linear[role.linear_set], i)) {
      return false;
    }
    const bool is_idempotent = role.op != ReduceOp::Sum && role.op != ReduceOp::Product;
    const auto& placement = operands_[i].spec->layout()[m];
    return lists_all_ || !is_idempotent || (placement.is_partial() && placement.reduce_op() == role.op);
  }

  /// The placement of tensor `i` on mesh dim `m`; empty if there is none.
  std::optional<Placement> placement_under(
      const Role& role,
      Tensors which,
      size_t i,
      const Rule::Dims& dims,
      int64_t m,
      const std::vector<int64_t>& sizes) const {
    if (which == Tensors::Outputs && contains(rule_.constant, i)) {
      return Replicate();
    }
    switch (role.kind) {
      case Role::Kind::Replicate:
        return Replicate();
      case Role::Kind::Linear:
        if (which == Tensors::Outputs) {
          return Partial(role.op);
        }
        return which == Tensors::Inputs && is_term(i, role, m) ? Partial(role.op) : Replicate();
      case Role::Kind::Monotone:
        if (which == Tensors::Outputs) {
          return Partial(role.op_out);
        }
        return which == Tensors::Inputs && static_cast<int64_t>(i) == role.operand ? Partial(role.op) : Replicate();
      case Role::Kind::Shard:
        if ((which == Tensors::Outputs && !Rule::has(dims, role.factor)) ||
            (which == Tensors::Inputs && rule_.is_reduced(role.factor) && contains(rule_.added, i))) {
          return Partial(rule_.reduction);
        }
        return placement(dims, role, mesh_.size(m), sizes);
      case Role::Kind::Listed:
        return listed_placement(rule_.listed[role.listed], which, i);
    }
    TORCH_INTERNAL_ASSERT(false);
  }

  /// An out= operand, which follows the inputs, has the placement of the output that is stored in it.
  static Placement listed_placement(const Rule::Listed& listed, Tensors which, size_t i) {
    if (which == Tensors::SizeArguments) {
      return listed.divides_sizes ? Shard(0) : Replicate();
    }
    const bool is_input = which == Tensors::Inputs && i < listed.inputs.size();
    return is_input ? listed.inputs[i] : listed.outputs[which == Tensors::Inputs ? i - listed.inputs.size() : i];
  }

  /// Whether the shards of every input that a listed strategy shards have one size on all ranks.
  bool divides_evenly(const std::vector<Role>& chosen, const std::vector<Layout>& inputs) const {
    for (size_t i = 0; i < inputs.size(); ++i) {
      auto sizes = operands_[i].spec->sizes().vec();
      for (int64_t m = 0; m < mesh_.ndim(); ++m) {
        if (chosen[m].kind == Role::Kind::Listed && inputs[i][m].is_shard()) {
          auto& size = sizes[inputs[i][m].dim()];
          if (size % mesh_.size(m) != 0 || !divides_blocks(size, mesh_.size(m), inputs[i][m])) {
            return false;
          }
          size /= mesh_.size(m);
        }
      }
    }
    return true;
  }

  /// The layouts of some tensors under the chosen roles; empty if one of them has none.
  template <class Get>
  std::optional<std::vector<Layout>> layouts(
      const std::vector<Role>& chosen,
      const MeshDims& order,
      Tensors which,
      size_t count,
      Get dims_of) const {
    std::vector<Placements> placements(count, Placements(mesh_.ndim(), Replicate()));
    std::vector<std::vector<int64_t>> positions(count, std::vector<int64_t>(mesh_.ndim(), 0));
    auto sizes = rule_.sizes; // the local size of each factor, updated with every mesh dim
    for (const auto m : order) {
      const auto& role = chosen[m];
      for (size_t i = 0; i < count; ++i) {
        const auto placed = placement_under(role, which, i, dims_of(i), m, sizes);
        if (!placed) {
          return std::nullopt;
        }
        positions[i][m] = std::count_if(placements[i].begin(), placements[i].end(), [&](const Placement& other) {
          return placed->is_shard() && other.is_shard(placed->dim());
        });
        placements[i][m] = *placed;
      }
      if (role.kind == Role::Kind::Shard) {
        auto& size = sizes[role.factor];
        size = chunk(size, mesh_.size(m), 0).length;
      }
    }
    std::vector<Layout> result;
    for (size_t i = 0; i < count; ++i) {
      result.emplace_back(placements[i], positions[i]);
    }
    return result;
  }

  static bool contains(const std::vector<int64_t>& numbers, size_t number) {
    return std::find(numbers.begin(), numbers.end(), static_cast<int64_t>(number)) != numbers.end();
  }

  /// Whether every rank holds at least one index of a factor.
  bool fills(const std::vector<Role>& chosen, const MeshDims& order, Rule::Factor factor) const {
    std::set<int64_t> local_sizes = {rule_.sizes[factor]}; // of all ranks
    for (const auto m : order) {
      if (chosen[m].kind != Role::Kind::Shard || chosen[m].factor != factor) {
        continue;
      }
      const auto ranks = mesh_.size(m);
      std::set<int64_t> smaller;
      for (const auto size : local_sizes) {
        const auto longest = chunk(size, ranks, 0).length;
        const auto last = chunk(size, ranks, ranks - 1).length;
        if (chosen[m].unequal && !divides_blocks(size, ranks, *chosen[m].unequal)) {
          return false;
        }
        if (last == 0 || (chosen[m].split > 1 && size % (chosen[m].split * ranks) != 0)) {
          return false;
        }
        smaller.insert({longest, last});
      }
      local_sizes = std::move(smaller);
    }
    return true;
  }

  void consider(const std::vector<Role>& chosen, const MeshDims& order) {
    const auto fills_factor = [&](Rule::Factor factor) { return fills(chosen, order, factor); };
    if (!std::all_of(rule_.filled.begin(), rule_.filled.end(), fills_factor)) {
      return;
    }
    auto inputs = layouts(
        chosen, order, Tensors::Inputs, rule_.inputs.size(), [&](size_t i) -> auto& { return rule_.inputs[i]; });
    auto outputs = layouts(
        chosen, order, Tensors::Outputs, rule_.outputs.size(), [&](size_t i) -> auto& { return rule_.outputs[i]; });
    auto size_arguments = layouts(
        chosen, order, Tensors::SizeArguments, rule_.size_arguments.size(),
        [&](size_t i) -> auto& { return rule_.size_arguments[i].dims; });
    for (size_t k = 0; inputs && k < rule_.of_any_layout.size(); ++k) {
      const auto operand = rule_.of_any_layout[k];
      (*inputs)[operand] = operands_[operand].spec->layout();
    }
    if (!inputs || !outputs || !size_arguments || !std::all_of(outputs->begin(), outputs->end(), partials_commute) ||
        !std::all_of(inputs->begin(), inputs->end(), partials_commute) || !divides_evenly(chosen, *inputs)) {
      return;
    }
    if (lists_all_) {
      const bool is_replicated = std::all_of(
          chosen.begin(), chosen.end(), [](const Role& role) { return role.kind == Role::Kind::Replicate; });
      if (!is_replicated) {
        all_.push_back({std::move(*inputs), std::move(*outputs), std::move(*size_arguments), {}, /*cost=*/0});
      }
      return;
    }
    for (const auto& stored : stored_) {
      if (stored.output != StoredOutput::kNone && contains(rule_.unread, stored.operand)) {
        (*inputs)[stored.operand] = (*outputs)[stored.output]; // an out= argument is in no linear set
      }
    }
    double total = 0;
    for (const auto& stored : stored_) {
      const auto& kept = operands_[stored.operand].spec->layout();
      const auto& taken = (*inputs)[stored.operand];
      if ((stored.output != StoredOutput::kNone && (*outputs)[stored.output] != taken) ||
          (taken != kept && !stored.may_redistribute)) {
        return;
      }
      total += return_cost(stored.operand, taken);
    }
    for (const auto operand : rule_.updated) {
      if (!is_stored(operand) && (*inputs)[operand] != operands_[operand].spec->layout()) {
        return;
      }
    }
    for (size_t i = 0; i < operands_.size(); ++i) {
      total += redistribution_cost(i, (*inputs)[i]);
      if (best_ && total >= best_->cost) {
        return;
      }
    }
    best_ = Strategy{std::move(*inputs), std::move(*outputs), std::move(*size_arguments), {}, total};
    for (int64_t m = 0; m < mesh_.ndim(); ++m) {
      if (rule_.lookup && chosen[m].kind == Role::Kind::Shard && chosen[m].factor == rule_.lookup->factor) {
        best_->lookup_dims.push_back(m);
      }
    }
  }

  bool is_stored(size_t operand) const {
    return std::any_of(stored_.begin(), stored_.end(), [&](const StoredOutput& stored) {
      return stored.operand == static_cast<int64_t>(operand);
    });
  }

  /// The cost of redistributing the written value back to the operand's own layout.
  double return_cost(size_t operand, const Layout& layout) const {
    const auto& spec = operands_[operand].spec;
    if (spec->layout() == layout) {
      return 0;
    }
    return is_refused(layout, spec->layout()) ? std::numeric_limits<double>::infinity()
                                              : cost(plan(spec->with(layout), spec));
  }

  double redistribution_cost(size_t operand, const Layout& layout) {
    const auto& is_stationary = operands_[operand].is_stationary;
    const bool is_unread = contains(rule_.unread, operand);
    const auto spec = is_unread ? unread_spec(operands_[operand].spec) : operands_[operand].spec;
    if (spec->layout() == layout || operands_[operand].spec->layout() == layout) {
      return 0;
    }
    if (is_unread && is_stored(operand)) {
      return 0; // its values are overwritten, so that none of them has to come first
    }
    auto& known = known_costs_[operand];
    for (const auto& [known_layout, seconds] : known) {
      if (known_layout == layout) {
        return seconds;
      }
    }
    double seconds = std::numeric_limits<double>::infinity();
    if (!is_refused(spec->layout(), layout)) {
      const auto found = plan(spec, spec->with(layout));
      seconds = cost(found) + return_seconds(found);
      const bool transfers =
          std::any_of(found.steps.begin(), found.steps.end(), [](const Step& step) { return communicates(step.kind); });
      seconds += is_stationary && transfers ? kStationarySeconds : 0;
    }
    known.emplace_back(layout, seconds);
    return seconds;
  }

  const Rule& rule_;
  c10::ArrayRef<PlacedOperand> operands_;
  c10::ArrayRef<StoredOutput> stored_;
  const DeviceMesh& mesh_;
  std::vector<std::vector<Role>> roles_;
  std::vector<MeshDims> orders_;
  std::vector<std::vector<std::pair<Layout, double>>> known_costs_;
  std::optional<Strategy> best_;
  bool lists_all_ = false;
  std::vector<Strategy> all_;
};

} // namespace

SpecPtr unread_spec(const SpecPtr& spec) {
  return spec->with(without_partial(spec->layout()));
}

std::vector<Strategy> all_strategies(const Rule& rule, c10::ArrayRef<SpecPtr> operands) {
  std::vector<PlacedOperand> placed;
  for (const auto& spec : operands) {
    placed.push_back({spec});
  }
  return Chooser(rule, placed, {}).all();
}

std::optional<Strategy> choose(
    const Rule& rule,
    c10::ArrayRef<PlacedOperand> operands,
    c10::ArrayRef<StoredOutput> stored) {
  TORCH_INTERNAL_ASSERT(rule.inputs.size() == operands.size());
  auto best = Chooser(rule, operands, stored).best();
  if (best && best->cost == std::numeric_limits<double>::infinity()) {
    return std::nullopt;
  }
  return best;
}

} // namespace weft
