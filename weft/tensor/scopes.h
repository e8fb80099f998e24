#pragma once

namespace weft {

/// While it lasts, the calling thread checks what it otherwise takes on trust, at the cost of communication.
///
///   const DebugScope debug;
///   loss.backward();   // raises where ranks disagree about what a boundary says is the same on all of them
///
/// Every rank of a mesh must open and close it at the same places: what is checked is compared between them.
class DebugScope {
 public:
  explicit DebugScope(bool enabled = true);
  ~DebugScope();
  DebugScope(const DebugScope&) = delete;
  DebugScope& operator=(const DebugScope&) = delete;

 private:
  bool outer_;
};

bool debug_enabled();

} // namespace weft
