#include "weft/graph/overlap/overlap_decision.h"

#include "weft/core/shard_math.h"
#include "weft/graph/analysis/call_arguments.h"
#include "weft/graph/analysis/effects.h"
#include "weft/graph/analysis/fused_node.h"
#include "weft/graph/analysis/summary.h"
#include "weft/graph/overlap/exposure.h"
#include "weft/graph/overlap/node_times.h"
#include "weft/overlap/measure/mesh_rates.h"

#include <nlohmann/json.hpp>

namespace weft::graph {

namespace {

/// A collective with a smaller operand is too short to matter.
constexpr int64_t kFewBytes = 8192;

/// The mesh of the program; where it has none, a mesh of as many ranks as the group has members.
DeviceMesh mesh_of(const Program& program, int64_t members) {
  return program.mesh ? *program.mesh : DeviceMesh::parse(c10::str("mesh(members=", members, ")"));
}

/// The mesh dims that a group is named by; all of them where it has another name.
MeshDims dims_of(const DeviceMesh& mesh, const std::string& group) {
  MeshDims all;
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    all.push_back(m);
  }
  return mesh_dims_named(mesh, group).value_or(all);
}

} // namespace

OverlapMode OverlapOptions::mode_of(const std::string& group) const {
  const auto found = modes_of_groups.find(group);
  return found == modes_of_groups.end() ? mode : found->second;
}

bool OverlapOptions::is_off() const {
  return mode == OverlapMode::Off && std::all_of(modes_of_groups.begin(), modes_of_groups.end(), [](const auto& entry) {
           return entry.second == OverlapMode::Off;
         });
}

std::string OverlapDecision::outcome() const {
  if (!fused) {
    return "not fused";
  }
  const auto text = c10::str(
      "fused with ", matmuls, matmuls == 1 ? " matmul, " : " matmuls, ", chunks, chunks == 1 ? " chunk" : " chunks");
  return predicted_gain_seconds > 0 ? text + ", gains " + seconds_text(predicted_gain_seconds) : text;
}

std::string OverlapDecision::to_string() const {
  return c10::str(
      kind, " %", node, " over ", group, module.empty() ? "" : ", in " + module, ": ", outcome(), fused ? ": " : ", ",
      reason);
}

std::string OverlapDecision::to_json() const {
  const nlohmann::ordered_json json = {
      {"node", node},     {"module", module},   {"kind", kind},     {"group", group},
      {"fused", fused},   {"matmuls", matmuls}, {"chunks", chunks}, {"predicted_gain_seconds", predicted_gain_seconds},
      {"reason", reason}, {"text", to_string()}};
  return json.dump();
}

OverlapGate::OverlapGate(const Program& program, const OverlapOptions& options)
    : program_(program), options_(options), hints_(hints(program)) {
  const auto& modes = options.modes_of_groups;
  if (options.mode == OverlapMode::Auto ||
      std::any_of(modes.begin(), modes.end(), [](const auto& each) { return each.second == OverlapMode::Auto; })) {
    find_hidden();
  }
}

OverlapGate::Rates OverlapGate::rates_for(const Node& collective, const std::string& group, int64_t members) const {
  if (options_.link && options_.compute) {
    return {*options_.link, *options_.compute};
  }
  if (const auto measured = options_.rates_of_groups.find(group); measured != options_.rates_of_groups.end()) {
    return {options_.link.value_or(measured->second.link), options_.compute.value_or(measured->second.compute)};
  }
  const auto mesh = mesh_of(program_, members);
  const auto rates = rates_of(mesh, collective.operand(0)->tensor().dtype);
  return {options_.link.value_or(rates.link(dims_of(mesh, group))), options_.compute.value_or(rates.compute)};
}

void OverlapGate::find_hidden() {
  // Rates may have to be measured, which is not done for programs that only have small collectives.
  const Node* largest = nullptr;
  for (const auto* node = program_.graph->first(); node != nullptr && largest == nullptr; node = node->next()) {
    const bool sends = node->step() != nullptr ? communicates(node->step()->kind) : starts_collective(*node);
    if (!sends || node->operand_count() == 0 || !node->operand(0)->is_tensor()) {
      continue;
    }
    auto bytes = static_cast<int64_t>(c10::elementSize(node->operand(0)->tensor().dtype));
    for (const auto size : largest_local_sizes(*node->operand(0))) {
      bytes *= size;
    }
    largest = bytes >= kFewBytes ? node : nullptr;
  }
  if (largest == nullptr) {
    return;
  }
  const auto group = largest->op() == nullptr ? std::nullopt : CallArguments(*largest).text("group_name");
  const auto rates = rates_for(*largest, group.value_or(""), 2);
  const NodeTimes times(program_, rates.link, rates.compute);
  const auto exposures = find_exposure(
      program_,
      {.collective = [&](const Node& node) { return times.collective_seconds(node); },
       .compute = [&](const Node& node) { return times.compute_seconds(node); }});
  for (const auto& exposure : exposures.collectives) {
    if (exposure.hidden > 0) {
      hidden_[exposure.collective->output()->name()] = {exposure.hidden, "%" + exposure.by[0]->output()->name()};
    }
  }
}

OverlapGate::Verdict OverlapGate::decide(
    const OverlapCase& overlap,
    const Node& collective,
    const std::string& group,
    int64_t more_collectives) const {
  auto verdict = own_verdict(overlap, collective, group, more_collectives);
  if (verdict.fuse && options_.agreed_chunks) {
    const auto agreed = options_.agreed_chunks->find(collective.output()->name());
    verdict.fuse = agreed != options_.agreed_chunks->end();
    verdict.chunks = verdict.fuse ? agreed->second : verdict.chunks;
    verdict.reason = verdict.fuse ? verdict.reason : "not all members of its group can fuse it";
  }
  return verdict;
}

OverlapGate::Verdict OverlapGate::own_verdict(
    const OverlapCase& overlap,
    const Node& collective,
    const std::string& group,
    int64_t more_collectives) const {
  if (overlap.members < 2) {
    return {.reason = "a group of one sends nothing"};
  }
  const auto mode = options_.mode_of(group);
  if (mode == OverlapMode::Off) {
    return {.reason = "overlap is off for its group"};
  }
  const bool is_forced = mode == OverlapMode::Force;
  if (!is_forced && too_small_to_overlap(overlap)) {
    return {.reason = "too little is sent or computed for any link"};
  }
  const auto rates = rates_for(collective, group, overlap.members);
  const auto choice = choose_overlap(overlap, rates.link, rates.compute);
  const auto gain = choice.unfused_seconds - choice.fused_seconds;
  const auto latencies = static_cast<double>(more_collectives) * rates.link.latency_seconds;
  const auto hidden = hidden_.find(collective.output()->name());
  const auto hidden_seconds = hidden == hidden_.end() ? 0 : hidden->second.seconds;
  Verdict verdict{choice.fuse, choice.chunks, gain - latencies - hidden_seconds, choice.reason, !is_forced};
  if (is_forced) {
    verdict.reason = choice.fuse ? choice.reason : "forced, although " + choice.reason;
    verdict.fuse = true;
  } else if (choice.fuse && verdict.gain_seconds <= 0) {
    verdict.fuse = false;
    verdict.reason = "it would save " + seconds_text(gain) + ", less than " +
        (hidden_seconds > latencies
             ? "the " + seconds_text(hidden_seconds) + " of it that other compute hides, " + hidden->second.by
             : "the latency of one more collective, " + seconds_text(latencies));
  }
  return verdict;
}

std::vector<int64_t> OverlapGate::largest_local_sizes(const Value& value) const {
  std::vector<int64_t> sizes;
  for (const auto& size : value.tensor().sizes) {
    sizes.push_back(size.evaluate(hints_));
  }
  if (value.layout) {
    const auto local = largest_local_shape(sizes, *value.layout, program_.mesh->shape());
    sizes.assign(local.begin(), local.end());
  }
  return sizes;
}

} // namespace weft::graph
