#pragma once

#include "weft/graph/analysis/memory_sharing.h"

#include <functional>

namespace weft::graph {

/// Which values hold the same contents in other memory, since a redistribution copied them. Kept up while a graph is walked.
class MemoryCopies {
 public:
  /// A call that is visited: what it gives may lie where its operands do.
  void add_call(const Node& node) {
    sharing_.add(node);
  }
  /// `copy` holds, in memory of its own, what `value` holds now.
  void add_copy(const Value* copy, const Value* value);

  /// A value that shares contents, but not memory, with one that is written to now, and is still read after it: the program
  /// means one tensor where there would be two. `is_read_later(value)` is asked of both sides; nullptr where there is none.
  const Value* parted_by_write(const Value* written, const std::function<bool(const Value*)>& is_read_later) const;
  /// The first value whose contents, copied or not, the value has.
  const Value* original_of(const Value* value) const;
  /// All values that lie in the value's memory.
  std::vector<const Value*> values_sharing(const Value* value) const {
    return sharing_.values_sharing(value);
  }

 private:
  MemorySharing sharing_{Forwarding::Known};
  ValueTable<const Value*> copied_from_; // of copies, which are the first in their memory
  ValueTable<c10::SmallVector<const Value*, 1>> copies_;
};

} // namespace weft::graph
