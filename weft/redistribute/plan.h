#pragma once

#include "weft/redistribute/cost.h"

#include <vector>

namespace weft {

/// A redistribution plan: the steps that redistribute a tensor from one spec to another. It depends on the specs only,
/// so all ranks compute the same plan.
struct Plan {
  SpecPtr source;
  SpecPtr target;
  std::vector<Step> steps;

  /// One step per line: "all_gather(tp: S(1) -> R)", or "nothing" if there are no steps.
  std::string to_string() const;
};

/// The cheapest redistribution plan. Source and target must have the same mesh, shape and dtype; S to P is refused.
///
///   plan("f32[8,8] @ mesh(dp=2,tp=2) {P(sum), S(0)}", "... {R, R}")
///     reduce_scatter(dp: P(sum) -> S(0))...
Plan plan(const SpecPtr& source, const SpecPtr& target);
Plan plan(const SpecPtr& source, const SpecPtr& target, const LinkModel& links);

/// The estimated time in seconds. The cost of the cheapest plan obeys the triangle inequality: no detour is cheaper.
double cost(const Plan& plan);
double cost(const Plan& plan, const LinkModel& links);

/// The bytes that the rank with the most to receive gets from other ranks, if shards were of equal size.
double received_bytes(const Plan& plan);

} // namespace weft
