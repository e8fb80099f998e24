#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace weft {

class Unit;

using Units = std::vector<std::weak_ptr<Unit>>;

/// The order in which the units of a model run, learned as they do, and what follows from it: a unit's gather starts when the unit
/// before it begins to compute, forward and backward, and at most two resharded units are gathered at a time. The order is that of
/// the program, and so the same on every rank.
class Schedule : public std::enable_shared_from_this<Schedule> {
 public:
  /// Called when a unit is about to compute: gathers it, and starts the gather of the one that came next the last time.
  void begin_forward(Unit& unit);
  void begin_backward(Unit& unit);
  /// Called when a unit's forward is over: frees the units inside of it whose gathers were started and that it has not reached.
  void end_forward(Unit& unit);
  /// Called after a failure: frees what no forward or backward uses. Its own errors follow from the failure and are dropped.
  void recover();

  /// Whether the last forward was in the global view: that of a unit whose inputs do not tell.
  bool is_global = false;

 private:
  class Pass;
  using Followers = std::unordered_map<const Unit*, std::weak_ptr<Unit>>;

  /// The same for both directions.
  static void follow(Followers& followers, std::weak_ptr<Unit>& last, Unit& unit);
  static Units next_of(const Followers& followers, const std::optional<Units>& given, Unit& unit);
  void end_backward(bool has_failed);

  Followers units_;      // that have been in a forward, by themselves
  Followers prefetched_; // whose gathers were started by a forward that has not reached them, by themselves
  Followers next_forward_;
  Followers next_backward_;
  std::weak_ptr<Unit> last_forward_;
  std::weak_ptr<Unit> last_backward_;
  Units in_backward_; // that have begun and may be gathered
  std::weak_ptr<Pass> pass_;
};

} // namespace weft
