#pragma once

#include "weft/fully_sharded/unit_order.h"

#include <optional>
#include <unordered_map>

namespace weft {

/// The order in which the units of a model run, learned as they do, and what follows from it: a unit's gather starts when the unit
/// before it begins to compute, forward and backward, and at most two resharded units are gathered at a time. Where backward follows
/// forward, the last unit of forward stays gathered for its backward, and the gather of the unit whose backward is next starts in its
/// forward. The order is that of the program, and so the same on every rank.
class Schedule : public std::enable_shared_from_this<Schedule> {
 public:
  /// Called before a unit is used.
  void add(Unit& unit);
  /// Called when a unit is about to compute: gathers it, and starts the gather of the one that came next the last time.
  void begin_forward(Unit& unit);
  /// `node` is the sequence number of the node of autograd that runs next.
  void begin_backward(Unit& unit, uint64_t node);
  /// Called when a checkpoint computes a unit's forward anew, in backward: gathers the unit, for its own backward as well.
  void begin_recomputation(Unit& unit);
  /// Called when a unit's forward is over: frees the units inside of it whose gathers were started and that it has not reached.
  void end_forward(Unit& unit);
  /// Whether a unit whose forward is over stays gathered, because its backward is probably next.
  bool stays_for_backward(Unit& unit);
  /// Called after a failure: frees what no forward or backward uses. Its own errors follow from the failure and are dropped.
  void recover();

  /// Whether the last forward was in the global view: that of a unit whose inputs do not tell.
  bool is_global = false;

 private:
  class Pass;
  using UnitSet = std::unordered_map<const Unit*, std::weak_ptr<Unit>>;

  /// A forward outside of those of all other units begins another pass if it did so before.
  void begin_pass_before(Unit& unit);
  /// Starts the gather that backward will probably want first, in the forward of the last unit.
  void prefetch_for_backward(const Unit& last);
  void begin_backward_pass();
  void end_backward(bool has_failed);

  UnitSet known_;
  Units units_;        // that have been used, in the order of their first uses
  UnitSet prefetched_; // whose gathers were started by a forward that has not reached them
  UnitOrder forward_;
  UnitOrder backward_;
  UnitSet outermost_;           // whose forwards were inside of no other one in this pass
  std::weak_ptr<Unit> running_; // the outermost one, while it runs
  Units in_backward_;           // that have begun and may be gathered
  Units recomputed_;            // in this pass; some have no backward
  std::weak_ptr<Pass> pass_;
  bool expects_backward_ = false; // after the next forward, as after the last one
  bool repeats_forward_ = false;  // since the last backward
  Units awaiting_backward_;       // gathered for a backward that may not come
};

} // namespace weft
