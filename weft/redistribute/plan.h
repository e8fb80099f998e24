#pragma once

#include "weft/redistribute/cost.h"

#include <vector>

namespace weft {

/// The steps that bring a tensor from one spec to another. Pure: the same on every rank, and on none in particular.
struct Plan {
  SpecPtr source;
  SpecPtr target;
  std::vector<Step> steps;

  /// One step per line: "all_gather(tp: S(1) -> R)"; "nothing" where there is nothing to do.
  std::string to_string() const;
};

/// The cheapest plan. Source and target must have the same mesh, shape and dtype; S to P is refused.
///
///   plan("f32[8,8] @ mesh(dp=2,tp=2) {P(sum), S(0)}", "... {R, R}")
///     reduce_scatter(dp: P(sum) -> S(0))...
Plan plan(const SpecPtr& source, const SpecPtr& target);
Plan plan(const SpecPtr& source, const SpecPtr& target, const LinkModel& links);

/// Seconds that the links take. The cost of the cheapest plan obeys the triangle inequality: no detour is cheaper.
double cost(const Plan& plan);
double cost(const Plan& plan, const LinkModel& links);

/// Bytes that the rank with the most to receive gets from other ranks, in even shares.
double received_bytes(const Plan& plan);

} // namespace weft
