#pragma once

#include "weft/redistribute/step.h"

namespace weft {

/// What a link costs: the time before the first byte, and the bytes per second after it.
struct Link {
  double latency_seconds;
  double bytes_per_second;
};

/// The links that plans reckon with: constants, the same on every rank, so that all ranks choose the same plan.
struct LinkModel {
  c10::SmallVector<Link, kMaxMeshDims> links; // per mesh dim

  /// One link for all mesh dims: loopback TCP for cpu, NVLink for cuda.
  static LinkModel for_mesh(const DeviceMesh& mesh);
};

/// The tensor that is moved, as far as costs are concerned.
struct CostContext {
  c10::IntArrayRef sizes;
  int64_t element_bytes;
  c10::IntArrayRef mesh_shape;
  const LinkModel& links;
};

/// Elements that a rank holds, in even shares.
double local_elements(const Layout& layout, const CostContext& context);

/// Bytes that the rank with the most to receive gets from other ranks, in even shares.
double received_bytes(const Step& step, const CostContext& context);

/// Seconds: the latency of the slowest link and the bytes over it; a local step counts almost nothing.
double cost(const Step& step, const CostContext& context);

} // namespace weft
