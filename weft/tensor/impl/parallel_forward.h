#pragma once

namespace weft {

/// This thread runs the forward of a parallelized module (parallelize_module, distribute_module): until the object is
/// destroyed, plain tensors among distributed ones count as replicated, the same on every rank.
///
/// Not a member of Scopes, which every operator would have to look up; this is read for plain tensors alone. Other
/// threads need no copy of it, because in backward plain tensors count as replicated anyway.
class ParallelForward {
 public:
  /// Changes nothing if `enters` is false, or if the thread is in such a forward already.
  explicit ParallelForward(bool enters = true) : outer_(exchange(is_active() || enters)) {}
  ~ParallelForward() {
    exchange(outer_);
  }
  ParallelForward(const ParallelForward&) = delete;
  ParallelForward& operator=(const ParallelForward&) = delete;

  static bool is_active();
  /// Sets whether the thread is in such a forward and returns whether it was; for callers that cannot hold an object.
  static bool exchange(bool active);

 private:
  bool outer_;
};

} // namespace weft
