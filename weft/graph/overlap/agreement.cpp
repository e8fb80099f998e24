#include "weft/graph/overlap/agreement.h"

#include "weft/comm/world/named_groups.h"
#include "weft/graph/analysis/call_arguments.h"
#include "weft/graph/analysis/effects.h"
#include "weft/graph/ir/clone.h"
#include "weft/overlap/measure/link_rate.h"
#include "weft/overlap/measure/mesh_rates.h"
#include "weft/overlap/measure/timing.h"

#include <algorithm>

namespace weft::graph {

namespace {

/// A collective's kind as a number. Members that have different collectives at one place have different numbers.
double number_of(const std::string& kind) {
  return kind == "all_gather" ? 1 : kind == "reduce_scatter" ? 2 : 3;
}

/// Each value and its negative, so that an elementwise maximum over the members has the largest and the smallest.
std::vector<double> with_negatives(const std::vector<double>& values) {
  std::vector<double> all = values;
  std::transform(values.begin(), values.end(), std::back_inserter(all), [](double value) { return -value; });
  return all;
}

/// The largest and the smallest of the members' values.
struct Extremes {
  std::vector<double> most;
  std::vector<double> least;
};
Extremes extremes(weft::Group& group, c10::Device device, const std::vector<double>& values) {
  const auto all = largest(group, device, with_negatives(values));
  const auto middle = all.begin() + static_cast<int64_t>(values.size());
  Extremes result{{all.begin(), middle}, {middle, all.end()}};
  std::transform(
      result.least.begin(), result.least.end(), result.least.begin(), [](double negative) { return -negative; });
  return result;
}

/// The decisions on collectives over one group, as all its members have them.
void agree(
    const std::vector<const OverlapDecision*>& own,
    weft::Group& group,
    c10::Device device,
    std::map<std::string, int64_t>& agreed) {
  const auto counts = extremes(group, device, {static_cast<double>(own.size())});
  if (counts.most != counts.least || own.empty()) {
    return; // the members' programs differ
  }
  std::vector<double> values;
  for (const auto* decision : own) {
    values.insert(
        values.end(),
        {number_of(decision->kind), static_cast<double>(decision->fused), static_cast<double>(decision->chunks)});
  }
  const auto all = extremes(group, device, values);
  for (size_t i = 0; i < own.size(); ++i) {
    const bool is_same_kind = all.most[3 * i] == all.least[3 * i];
    const bool is_fused_by_all = all.least[3 * i + 1] == 1;
    if (is_same_kind && is_fused_by_all) {
      agreed.emplace(own[i]->node, static_cast<int64_t>(all.most[3 * i + 2]));
    }
  }
}

/// Calls `fn` with the name of every group and this member's decisions on its collectives, in the order of the program.
using Decisions = std::vector<const OverlapDecision*>;
template <class Fn>
void with_members(const OverlapDecisions& own, const std::map<std::string, c10::Device>& groups, const Fn& fn) {
  const measure::PlainOperators plain; // a compiler may be tracing
  std::vector<std::string> order;
  std::map<std::string, Decisions> of_group;
  for (const auto& decision : own) {
    if (groups.count(decision.group) > 0) {
      auto& decisions = of_group[decision.group];
      if (decisions.empty()) {
        order.push_back(decision.group);
      }
      decisions.push_back(&decision);
    }
  }
  for (const auto& name : order) {
    try {
      fn(name, of_group.at(name));
    } catch (c10::Error& error) {
      error.add_context(c10::str(
          "[micro_pipeline] all members of the group ", name,
          " must run the pass on their programs at the same place, because they agree on what they fuse."));
      throw;
    }
  }
}

/// The dtype of the program's first collective: that of its matmuls, most likely. Only dtypes that matmuls can be
/// measured in count, and not the bits of others.
c10::ScalarType dtype_of_collectives(const Graph& graph) {
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    if (starts_collective(*node) && node->operand_count() > 0 && node->operand(0)->is_tensor()) {
      const auto dtype = node->operand(0)->tensor().dtype;
      if (dtype == c10::kFloat || dtype == c10::kDouble || dtype == c10::kBFloat16 || dtype == c10::kHalf) {
        return dtype;
      }
    }
  }
  return c10::kFloat;
}

/// The groups of the program's collectives that exist, with the device of their tensors.
std::map<std::string, c10::Device> existing_groups(const Graph& graph) {
  std::map<std::string, c10::Device> groups;
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    if (!starts_collective(*node) || node->operand_count() == 0 || !node->operand(0)->is_tensor()) {
      continue;
    }
    const auto name = CallArguments(*node).text("group_name");
    const auto device = node->operand(0)->tensor().device;
    if (name && named_group_exists(*name, device.type())) {
      groups.emplace(*name, device);
    }
  }
  return groups;
}

std::vector<std::string> collectives_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    if (starts_collective(*node) && node->output() != nullptr) {
      names.push_back(node->output()->name());
    }
  }
  return names;
}

} // namespace

std::map<std::string, int64_t> agreed_chunks(
    const OverlapDecisions& own,
    const std::map<std::string, c10::Device>& groups) {
  std::map<std::string, int64_t> agreed;
  for (const auto& decision : own) {
    if (decision.fused && groups.count(decision.group) == 0) {
      agreed.emplace(decision.node, decision.chunks);
    }
  }
  with_members(own, groups, [&](const std::string& name, const Decisions& decisions) {
    agree(decisions, *named_group(name, groups.at(name).type()), groups.at(name), agreed);
  });
  return agreed;
}

std::map<std::string, OverlapOptions::Rates> measured_rates(
    const OverlapDecisions& own,
    const std::map<std::string, c10::Device>& groups,
    c10::ScalarType dtype) {
  std::map<std::string, OverlapOptions::Rates> rates;
  with_members(own, groups, [&](const std::string& name, const Decisions& decisions) {
    if (NamedGroupScope::find(name) != nullptr) {
      return; // groups of ranks as threads, which plan by constants
    }
    const auto device = groups.at(name);
    const bool wants =
        std::any_of(decisions.begin(), decisions.end(), [](const auto* each) { return each->is_by_rates; });
    const auto all =
        extremes(*named_group(name, device.type()), device, {static_cast<double>(wants), static_cast<double>(dtype)});
    if (all.most[0] == 1 && all.most[1] == all.least[1]) {
      const auto measured = measure_rates(named_mesh(name, device.type()), dtype);
      rates.emplace(name, OverlapOptions::Rates{measured.links.links[0], measured.compute});
    }
  });
  return rates;
}

OverlapDecisions micro_pipeline_together(Program& program, OverlapOptions options) {
  const auto groups = options.is_off() ? std::map<std::string, c10::Device>() : existing_groups(*program.graph);
  if (groups.empty()) {
    return micro_pipeline(program, options);
  }
  for (const auto& [name, device] : groups) {
    options.members.emplace(name, named_place(name).size);
  }
  const auto tried = [&] {
    auto copy = clone(program);
    return micro_pipeline(copy, options);
  };
  auto own = tried();
  if (!options.link || !options.compute) {
    options.rates_of_groups = measured_rates(own, groups, dtype_of_collectives(*program.graph));
    own = options.rates_of_groups.empty() ? std::move(own) : tried();
  }
  auto agreed = agreed_chunks(own, groups);
  // A fused all-reduce leaves a gather, whose name depends on those that were inserted before it. Members agree on it
  // only if the pass does on the program what it did on the copy.
  const bool is_as_before = std::all_of(own.begin(), own.end(), [&](const OverlapDecision& decision) {
    return !decision.fused || agreed.count(decision.node) > 0;
  });
  if (!is_as_before) {
    const auto known = collectives_of(*program.graph);
    std::erase_if(
        agreed, [&](const auto& entry) { return std::find(known.begin(), known.end(), entry.first) == known.end(); });
  }
  options.agreed_chunks = std::move(agreed);
  return micro_pipeline(program, options);
}

} // namespace weft::graph
