#pragma once

#include "weft/redistribute/step.h"

namespace weft {

/// The cost of a link: the time before the first byte, and the bytes per second after it.
struct Link {
  double latency_seconds;
  double bytes_per_second;
};

/// The links that the cost of a redistribution plan is computed with: constants, equal on every rank, so that all ranks
/// choose the same plan.
struct LinkModel {
  c10::SmallVector<Link, kMaxMeshDims> links; // per mesh dim

  /// One link for all mesh dims: loopback TCP for cpu, NVLink for cuda.
  static LinkModel for_mesh(const DeviceMesh& mesh);
};

/// The properties of the redistributed tensor that its cost depends on.
struct CostContext {
  c10::IntArrayRef sizes;
  int64_t element_bytes;
  c10::IntArrayRef mesh_shape;
  const LinkModel& links;
};

/// The number of elements that a rank holds, if shards were of equal size.
double local_elements(const Layout& layout, const CostContext& context);

/// The bytes that the rank with the most to receive gets from other ranks, if shards were of equal size.
double received_bytes(const Step& step, const CostContext& context);

/// Seconds: the latency of the slowest link and the transfer of the bytes over it. A local step costs almost nothing.
double cost(const Step& step, const CostContext& context);

} // namespace weft
