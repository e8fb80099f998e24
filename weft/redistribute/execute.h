#pragma once

#include "weft/comm/communicator.h"
#include "weft/redistribute/plan.h"
#include "weft/redistribute/transfer.h"

namespace weft {

/// A redistribution plan prepared for one rank: its groups, shapes and copies are computed, a run is a flat list of
/// calls. On a rank that is not in the mesh nothing is sent or received, and the local tensor stays empty.
class CompiledPlan {
 public:
  explicit CompiledPlan(Plan plan);

  const Plan& plan() const {
    return plan_;
  }

  /// Starts the plan on this rank's local tensor and returns the new local tensor, which may share memory with the old
  /// one if no data is transferred. The first collective is under way on return; the following ones start when a thread
  /// waits for the result.
  AsyncTensor run(const at::Tensor& local) const;

 private:
  struct CompiledStep;

  void check_local(const at::Tensor& local) const;
  AsyncTensor finish_later(AsyncTensor current, size_t next) const;

  Plan plan_;
  c10::DimVector local_shape_;
  std::vector<std::shared_ptr<const CompiledStep>> steps_;
};

/// Redistributes this rank's local tensor. Redistribution plans are compiled once per thread and pair of specs. Every
/// rank of the mesh must make the call.
AsyncTensor redistribute_local(const at::Tensor& local, const SpecPtr& source, const SpecPtr& target);

/// Counters of the calling thread's cache of compiled plans. The cache is bounded: when it is full, it is cleared.
struct PlanCacheCounters {
  size_t size;
  size_t hits;
  size_t misses;
};
PlanCacheCounters plan_cache_counters();

} // namespace weft
