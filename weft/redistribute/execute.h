#pragma once

#include "weft/comm/communicator.h"
#include "weft/redistribute/plan.h"
#include "weft/redistribute/transfer.h"

namespace weft {

/// A plan made ready for one rank: groups, shapes and copies are settled, what is left is a flat list of calls.
class CompiledPlan {
 public:
  explicit CompiledPlan(Plan plan);

  const Plan& plan() const {
    return plan_;
  }

  /// Starts on this rank's local tensor and gives the new one, which may share the old one's memory where no data had to
  /// move. The first collective is under way on return; the rest follows when the result is waited for.
  AsyncTensor run(const at::Tensor& local) const;

 private:
  struct CompiledStep;

  void check_local(const at::Tensor& local) const;
  AsyncTensor finish_later(AsyncTensor current, size_t next) const;

  Plan plan_;
  c10::DimVector local_shape_;
  std::vector<std::shared_ptr<const CompiledStep>> steps_;
};

/// Redistributes this rank's local tensor of a distributed one. Plans are compiled once per thread and pair of specs.
/// Every rank of the mesh must call it.
AsyncTensor redistribute_local(const at::Tensor& local, const SpecPtr& source, const SpecPtr& target);

/// Of the calling thread's compiled plans. The cache is bounded: when full it starts anew.
struct PlanCacheCounters {
  size_t size;
  size_t hits;
  size_t misses;
};
PlanCacheCounters plan_cache_counters();

} // namespace weft
