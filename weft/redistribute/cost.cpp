#include "weft/redistribute/cost.h"

#include <algorithm>

namespace weft {

namespace {

constexpr Link kLoopback = {.latency_seconds = 30e-6, .bytes_per_second = 2e9};
constexpr Link kNvlink = {.latency_seconds = 10e-6, .bytes_per_second = 200e9};
/// So that of two plans with the same communication the shorter one wins, and the one with smaller groups.
constexpr double kLocalStepSeconds = 1e-7;
constexpr double kMemberSeconds = 1e-10;

/// What a rank holds of a tensor dim: an even share, but where there is anything to hold some rank holds an element.
/// Rounding up to whole pieces would make detours through dims that divide better look cheaper than they are.
double share(double length, int64_t parts) {
  return std::max(length / static_cast<double>(parts), std::min(length, 1.0));
}

double local_length(int64_t size, c10::ArrayRef<int64_t> cuts, c10::IntArrayRef mesh_shape) {
  auto length = static_cast<double>(size);
  for (const auto m : cuts) {
    length = share(length, mesh_shape[m]);
  }
  return length;
}

/// How many mesh dims both layouts cut by first, in the same way.
size_t common_cuts(const MeshDims& a_cuts, const MeshDims& b_cuts, const Layout& a, const Layout& b) {
  size_t common = 0;
  while (common < std::min(a_cuts.size(), b_cuts.size()) && a_cuts[common] == b_cuts[common] &&
         a[a_cuts[common]] == b[b_cuts[common]]) {
    ++common;
  }
  return common;
}

/// Elements that a rank must have after a move and did not have before: of what it wants, and of what the group holds,
/// the part that is not its own.
double missing_elements(const Step& step, const CostContext& context) {
  double wanted = 1;
  double wanted_and_held = 1;
  double held = 1;
  double in_group = 1;
  for (size_t d = 0; d < context.sizes.size(); ++d) {
    const auto dim = static_cast<int64_t>(d);
    const auto from = real_cuts(step.before, dim, context.mesh_shape);
    const auto to = real_cuts(step.after, dim, context.mesh_shape);
    const auto common = common_cuts(from, to, step.before, step.after);
    const auto length_before = local_length(context.sizes[d], from, context.mesh_shape);
    const auto length_after = local_length(context.sizes[d], to, context.mesh_shape);
    wanted *= length_after;
    held *= length_before;
    in_group *= local_length(context.sizes[d], c10::ArrayRef<int64_t>(from).slice(0, common), context.mesh_shape);
    // Where the cuts part ways, some rank holds nothing of what it wants.
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
      length = share(length, context.mesh_shape[m]);
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
