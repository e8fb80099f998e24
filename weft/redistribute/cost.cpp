#include "weft/redistribute/cost.h"

#include <algorithm>

namespace weft {

namespace {

constexpr Link kLoopback = {.latency_seconds = 30e-6, .bytes_per_second = 2e9};
constexpr Link kNvlink = {.latency_seconds = 10e-6, .bytes_per_second = 200e9};
/// Small costs that decide between plans with the same communication: for fewer local steps, and for smaller groups.
constexpr double kLocalStepSeconds = 1e-7;
constexpr double kMemberSeconds = 1e-10;

/// The estimated number of indices of a tensor dim that a rank holds: an even division, but at least one index. The
/// exact size of the largest shard would make detours through dims that divide evenly look cheaper than they are.
double even_shard(double length, int64_t ranks) {
  return std::max(length / static_cast<double>(ranks), std::min(length, 1.0));
}

double local_length(int64_t size, c10::ArrayRef<int64_t> shard_order, c10::IntArrayRef mesh_shape) {
  auto length = static_cast<double>(size);
  for (const auto m : shard_order) {
    length = even_shard(length, mesh_shape[m]);
  }
  return length;
}

/// The number of leading mesh dims that the shard orders of both layouts have in common, with equal placements.
size_t common_shards(const MeshDims& a_order, const MeshDims& b_order, const Layout& a, const Layout& b) {
  size_t common = 0;
  while (common < std::min(a_order.size(), b_order.size()) && a_order[common] == b_order[common] &&
         a[a_order[common]] == b[b_order[common]]) {
    ++common;
  }
  return common;
}

/// The number of elements that a rank must hold after a step and does not hold before it. Two upper bounds: the
/// elements that it wants less those of them that it holds, and the elements that the group holds less its own.
double missing_elements(const Step& step, const CostContext& context) {
  double wanted = 1;
  double wanted_and_held = 1;
  double held = 1;
  double in_group = 1;
  for (size_t d = 0; d < context.sizes.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    const auto from = effective_shard_order(step.before, dim, context.mesh_shape);
    const auto to = effective_shard_order(step.after, dim, context.mesh_shape);
    const auto common = common_shards(from, to, step.before, step.after);
    const auto length_before = local_length(context.sizes[d], from, context.mesh_shape);
    const auto length_after = local_length(context.sizes[d], to, context.mesh_shape);
    wanted *= length_after;
    held *= length_before;
    in_group *= local_length(context.sizes[d], c10::ArrayRef<int64_t>(from).slice(0, common), context.mesh_shape);
    // If the shard orders differ before either ends, some rank holds none of the indices that it wants.
    wanted_and_held *= common == from.size() ? length_after : common == to.size() ? length_before : 0;
  }
  return std::min(wanted - wanted_and_held, in_group - held);
}

double member_count(const Step& step, const CostContext& context) {
  double members = 1;
  for (const auto m : step.mesh_dims) {
    members *= static_cast<double>(context.mesh_shape[m]);
  }
  return members;
}

} // namespace

LinkModel LinkModel::for_mesh(const DeviceMesh& mesh) {
  LinkModel model;
  model.links.resize(mesh.ndim(), mesh.device_type() == c10::kCUDA ? kNvlink : kLoopback);
  return model;
}

double local_elements(const Layout& layout, const CostContext& context) {
  c10::SmallVector<double, 8> lengths(context.sizes.begin(), context.sizes.end());
  for (int64_t m = 0; m < layout.ndim(); ++m) {
    if (layout[m].is_shard()) {
      auto& length = lengths[layout[m].dim()];
      length = even_shard(length, context.mesh_shape[m]);
    }
  }
  double elements = 1;
  for (const auto length : lengths) {
    elements *= length;
  }
  return elements;
}

double received_bytes(const Step& step, const CostContext& context) {
  const auto members = member_count(step, context);
  const auto element_bytes = static_cast<double>(context.element_bytes);
  switch (step.kind) {
    case StepKind::Slice:
    case StepKind::MakePartial:
      return 0;
    case StepKind::AllGather:
    case StepKind::AllToAll:
      return missing_elements(step, context) * element_bytes;
    case StepKind::ReduceScatter:
      return local_elements(step.after, context) * (members - 1) * element_bytes;
    case StepKind::AllReduce:
      return local_elements(step.before, context) * 2 * (members - 1) / members * element_bytes;
  }
  return 0;
}

double cost(const Step& step, const CostContext& context) {
  if (!communicates(step.kind)) {
    return kLocalStepSeconds;
  }
  double latency = 0;
  double bytes_per_second = std::numeric_limits<double>::infinity();
  for (const auto m : step.mesh_dims) {
    latency = std::max(latency, context.links.links[m].latency_seconds);
    bytes_per_second = std::min(bytes_per_second, context.links.links[m].bytes_per_second);
  }
  return latency + member_count(step, context) * kMemberSeconds + received_bytes(step, context) / bytes_per_second;
}

} // namespace weft
