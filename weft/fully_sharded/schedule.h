#pragma once

#include "weft/fully_sharded/buffer_pool.h"

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace weft {

class GradientReduction;
class Unit;

using Units = std::vector<std::weak_ptr<Unit>>;

/// The order in which the units of a model run, learned as they do, and what follows from it: a unit's gather starts when the unit
/// before it begins to compute, forward and backward, and at most two resharded units are gathered at a time. The order is that of
/// the program, and so the same on every rank.
class Schedule : public std::enable_shared_from_this<Schedule> {
 public:
  const std::shared_ptr<BufferPool>& pool() const {
    return pool_;
  }

  /// Called when a unit is about to compute: gathers it, and starts the gather of the one that came next the last time.
  void begin_forward(Unit& unit);
  void begin_backward(Unit& unit);
  /// Called before the gradients of a unit are collected: waits for the reductions of the unit before, whose buffers are used again.
  void wait_for_reductions();
  /// Called with a reduction that has started.
  void add_reduction(const std::shared_ptr<GradientReduction>& reduction) {
    reductions_.push_back(reduction);
  }

  /// Whether the last forward was in the global view: that of a unit whose inputs do not tell.
  bool is_global = false;

 private:
  class Pass;
  using Followers = std::unordered_map<Unit*, std::weak_ptr<Unit>>;

  /// The same for both directions.
  static void follow(Followers& followers, std::weak_ptr<Unit>& last, Unit& unit);
  static void start_next(const Followers& followers, const std::optional<Units>& given, Unit& unit);
  void end_backward();

  std::shared_ptr<BufferPool> pool_ = std::make_shared<BufferPool>();
  Followers next_forward_;
  Followers next_backward_;
  std::weak_ptr<Unit> last_forward_;
  std::weak_ptr<Unit> last_backward_;
  Units in_backward_; // that have begun and may be gathered
  std::weak_ptr<Pass> pass_;
  std::vector<std::weak_ptr<GradientReduction>> reductions_;
};

} // namespace weft
