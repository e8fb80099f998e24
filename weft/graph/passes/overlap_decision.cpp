#include "weft/graph/passes/overlap_decision.h"

#include "weft/graph/passes/fused_node.h"
#include "weft/graph/passes/local_sizes.h"
#include "weft/graph/passes/summary.h"
#include "weft/redistribute/measure/mesh_rates.h"

namespace weft::graph {

namespace {

/// The mesh of the program, or one for planning where it has none.
DeviceMesh mesh_of(const Program& program, int64_t members) {
  return program.mesh ? *program.mesh : DeviceMesh::parse(c10::str("mesh(members=", members, ")"));
}

/// The mesh dims that a group is called by; all of them where it has another name.
MeshDims dims_of(const DeviceMesh& mesh, const std::string& group) {
  MeshDims all;
  for (int64_t m = 0; m < mesh.ndim(); ++m) {
    all.push_back(m);
  }
  return mesh_dims_named(mesh, group).value_or(all);
}

} // namespace

std::string OverlapDecision::to_string() const {
  auto text = c10::str(kind, " %", node, " over ", group, module.empty() ? "" : ", in " + module, ": ");
  if (!fused) {
    return text + "not fused, " + reason;
  }
  text += c10::str("fused with ", matmuls, matmuls == 1 ? " matmul, " : " matmuls, ", chunks, chunks == 1 ? " chunk" : " chunks");
  if (predicted_gain_seconds > 0) {
    text += ", gains " + seconds_text(predicted_gain_seconds);
  }
  return text + ": " + reason;
}

OverlapGate::OverlapGate(const Program& program, const OverlapOptions& options)
    : program_(program), options_(options), hints_(hints(program)) {}

OverlapGate::Verdict OverlapGate::decide(
    const OverlapCase& overlap,
    c10::ScalarType dtype,
    const std::string& group,
    int64_t more_collectives) {
  if (overlap.members < 2) {
    return {.reason = "a group of one sends nothing"};
  }
  const bool is_forced = options_.mode == OverlapMode::Force;
  if (!is_forced && too_small_to_overlap(overlap)) {
    return {.reason = "too little is sent or computed for any link"};
  }
  auto link = options_.link;
  auto compute = options_.compute;
  if (!link || !compute) {
    const auto mesh = mesh_of(program_, overlap.members);
    const auto rates = rates_of(mesh, dtype);
    link = link.value_or(rates.link(dims_of(mesh, group)));
    compute = compute.value_or(rates.compute);
  }
  auto choice = choose_overlap(overlap, *link, *compute);
  const auto gain = choice.unfused_seconds - choice.fused_seconds -
      static_cast<double>(more_collectives) * link->latency_seconds;
  Verdict verdict{choice.fuse && gain > 0, choice.chunks, gain, choice.reason};
  if (choice.fuse && gain <= 0) {
    verdict.reason = c10::str(
        "it would save ", seconds_text(choice.unfused_seconds - choice.fused_seconds),
        ", less than the latency of one more collective, ", seconds_text(link->latency_seconds));
  }
  if (is_forced && !verdict.fuse) {
    verdict.fuse = true;
    verdict.reason = "forced, although " + verdict.reason;
  }
  return verdict;
}

std::vector<int64_t> OverlapGate::largest_part(const Value& value) const {
  auto sizes = value.tensor().sizes;
  if (value.layout) {
    const auto& mesh = *program_.mesh;
    sizes = local_sizes(
        sizes, *value.layout,
        MeshPlace{{mesh.shape().begin(), mesh.shape().end()}, std::vector<int64_t>(mesh.ndim(), 0)});
  }
  std::vector<int64_t> numbers;
  for (const auto& size : sizes) {
    numbers.push_back(size.evaluate(hints_));
  }
  return numbers;
}

} // namespace weft::graph
