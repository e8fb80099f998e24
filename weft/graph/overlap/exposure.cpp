#include "weft/graph/overlap/exposure.h"

#include "weft/graph/analysis/effects.h"
#include "weft/graph/analysis/node_order.h"
#include "weft/graph/overlap/step_forms.h"

#include <algorithm>
#include <numeric>

namespace weft::graph {

namespace {

/// Nodes that compute, in order, and how much of their time hides no collective yet. Nodes with no time left are
/// skipped quickly: each points to the next one that may have some (a union-find).
class ComputeTime {
 public:
  ComputeTime(const Graph& graph, const std::function<double(const Node&)>& seconds) {
    for (auto* node = graph.first(); node != nullptr; node = node->next()) {
      first_at_.push_back(nodes_.size());
      const auto time = seconds(*node);
      if (time > 0) {
        nodes_.push_back({node, first_at_.size() - 1, time});
      }
    }
    first_at_.push_back(nodes_.size());
    next_.resize(nodes_.size() + 1);
    std::iota(next_.begin(), next_.end(), size_t{0});
  }

  /// Takes the time that is left of the nodes between two places in the graph, up to what the collective needs.
  void hide(Exposure& exposure, size_t begin, size_t end, size_t& looked_at) {
    if (begin >= end) {
      return;
    }
    const auto last = first_at_[end];
    for (auto i = find(first_at_[begin]); i < last && !exposure.is_hidden(); i = find(i)) {
      ++looked_at;
      auto& each = nodes_[i];
      const auto needed = exposure.seconds - exposure.hidden;
      exposure.by.push_back(each.node);
      if (each.left > needed) {
        each.left -= needed;
        exposure.hidden = exposure.seconds;
      } else {
        exposure.hidden += each.left;
        next_[i] = i + 1;
      }
    }
  }

 private:
  struct Compute {
    Node* node;
    size_t number;
    double left;
  };

  size_t find(size_t i) {
    auto root = i;
    while (next_[root] != root) {
      root = next_[root];
    }
    while (next_[i] != root) {
      i = std::exchange(next_[i], root);
    }
    return root;
  }

  std::vector<Compute> nodes_;
  std::vector<size_t> first_at_; // for every node of the graph, the first index in `nodes_` that is not before it
  std::vector<size_t> next_;
};

/// Whether nodes that stay at the collective's place prepare its operand, or finish its result.
struct Ends {
  bool is_prepared = false;
  bool is_finished = false;
};

/// For a step, as localize lowers it.
Ends ends_of_step(Node& node, const DeviceMesh& mesh) {
  const auto& step = *node.step();
  const bool is_average = std::any_of(step.mesh_dims.begin(), step.mesh_dims.end(), [&](int64_t m) {
    return step.before[m].is_partial() && step.before[m].reduce_op() == ReduceOp::Avg;
  });
  // An average is divided before the sum for float16, which could overflow, and behind the sum for other dtypes.
  const bool is_half = node.operand(0)->tensor().dtype == at::kHalf;
  Ends ends{is_average && is_half, is_average && !is_half};
  if (step.kind == StepKind::AllReduce) {
    return ends;
  }
  const auto is_plain = [&](const auto& form) {
    return form.refused.empty() && !form.size && step.mesh_dims.size() == 1;
  };
  if (step.kind == StepKind::AllGather) {
    const auto gather = gather_of_step(node, mesh);
    return is_plain(gather) ? Ends{false, gather.dim != 0} : Ends{true, true};
  }
  if (step.kind == StepKind::ReduceScatter) {
    const auto scatter = scatter_of_step(node, mesh);
    return is_plain(scatter) ? Ends{ends.is_prepared || scatter.dim != 0, ends.is_finished} : Ends{true, true};
  }
  return {true, true};
}

class ExposureSearch {
 public:
  ExposureSearch(const Program& program, const ExposureTimes& times, size_t in_flight)
      : program_(program),
        times_(times),
        in_flight_(in_flight),
        numbers_(number_nodes(*program.graph)),
        writes_(*program.graph),
        compute_(*program.graph, times.compute) {
    for (auto* node = program.graph->first(); node != nullptr; node = node->next()) {
      ++result_.looked_at;
      if (is_collective(*node)) {
        starts_.push_back(node);
      }
    }
  }

  Exposures run() {
    size_t begin = 0;
    size_t next = 0; // index of the next collective
    std::vector<size_t> ends;
    for (auto* node = program_.graph->first(); node != nullptr; node = node->next()) {
      const auto number = numbers_.at(node);
      if (next == starts_.size() || starts_[next] != node) {
        begin = communicates(*node) ? number + 1 : begin; // no collective starts before it
        continue;
      }
      begin = std::max(begin, earliest_start(*node));
      if (next >= in_flight_ && ends[next - in_flight_] <= number) {
        begin = std::max(begin, ends[next - in_flight_]);
      }
      auto end = first_use(*node);
      if (next + in_flight_ < starts_.size()) {
        end = std::min(end, numbers_.at(starts_[next + in_flight_]));
      }
      ends.push_back(end);
      Exposure exposure{.collective = node, .seconds = times_.collective(*node)};
      compute_.hide(exposure, begin, end, result_.looked_at);
      result_.collectives.push_back(std::move(exposure));
      ++next;
    }
    return std::move(result_);
  }

 private:
  static bool is_collective(const Node& node) {
    return node.step() != nullptr ? weft::communicates(node.step()->kind) : starts_collective(node);
  }

  std::optional<size_t> next_write(const Value* value, size_t behind) const {
    return writes_.next_write(value, behind, [this](const Node* node) { return numbers_.at(node); });
  }

  /// The node that first uses a value or writes to its memory.
  size_t first_use(const Value& value, size_t from) {
    auto first = next_write(&value, from).value_or(numbers_.size());
    for (const auto& use : value.uses()) {
      ++result_.looked_at;
      first = std::min(first, numbers_.at(use.node));
    }
    return first;
  }

  /// The first node that needs a collective's result.
  size_t first_use(Node& node) {
    const auto number = numbers_.at(&node);
    if (node.step() != nullptr) {
      return ends_of_step(node, *program_.mesh).is_finished ? number : first_use(*node.output(), number);
    }
    auto first = numbers_.size();
    for (const auto* output : node.outputs()) {
      for (const auto& use : output == nullptr ? Value::Uses() : output->uses()) {
        ++result_.looked_at;
        first = std::min(first, waits_for_collective(*use.node) ? place_of_wait(*use.node) : numbers_.at(use.node));
      }
    }
    return first == numbers_.size() ? number : first;
  }

  /// The node before which hoist_collectives puts a wait.
  size_t place_of_wait(const Node& wait) {
    const auto number = numbers_.at(&wait);
    const auto& pending = *wait.operand(0);
    const auto is_awaited = [](const Value::Use& use) { return waits_for_collective(*use.node); };
    if (wait.output() == nullptr || wait.output()->uses().empty() ||
        !std::all_of(pending.uses().begin(), pending.uses().end(), is_awaited)) {
      return number;
    }
    auto place = first_use(*wait.output(), number);
    const auto* start = pending.producer();
    for (size_t i = 0; start != nullptr && i < start->operand_count(); ++i) {
      place = std::min(place, next_write(start->operand(i), number).value_or(place));
    }
    return place;
  }

  /// The number of the first node that can use a value.
  size_t arrival(const Value& value) {
    const auto [known, is_new] = arrivals_.try_emplace(&value);
    return is_new ? known->second = find_arrival(value) : known->second;
  }
  size_t find_arrival(const Value& value) {
    auto* producer = value.producer();
    if (producer == nullptr) {
      return 0;
    }
    const auto number = numbers_.at(producer);
    if (waits_for_collective(*producer)) {
      return place_of_wait(*producer);
    }
    const bool may_come_late =
        producer->step() != nullptr && is_collective(*producer) && !ends_of_step(*producer, *program_.mesh).is_finished;
    return may_come_late ? first_use(value, number) : number + 1;
  }

  size_t earliest_start(Node& node) {
    const auto number = numbers_.at(&node);
    if (node.step() != nullptr && ends_of_step(node, *program_.mesh).is_prepared) {
      return number;
    }
    size_t begin = 0;
    for (size_t i = 0; i < node.operand_count(); ++i) {
      begin = std::max(begin, arrival(*node.operand(i)));
      const auto number_of = [this](const Node* each) { return numbers_.at(each); };
      if (const auto written = writes_.last_write(node.operand(i), number, number_of)) {
        begin = std::max(begin, *written + 1);
      }
    }
    return begin;
  }

  const Program& program_;
  const ExposureTimes& times_;
  size_t in_flight_;
  NodeNumbers numbers_;
  MemoryWrites writes_;
  ComputeTime compute_;
  std::vector<Node*> starts_;
  std::unordered_map<const Value*, size_t> arrivals_;
  Exposures result_;
};

} // namespace

Exposures find_exposure(const Program& program, const ExposureTimes& times, size_t in_flight) {
  return ExposureSearch(program, times, in_flight).run();
}

} // namespace weft::graph
