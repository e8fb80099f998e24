#pragma once

#include "weft/graph/analysis/memory_sharing.h"

#include <functional>

namespace weft::graph {

/// Tracks which values have the same contents in different memory, because a redistribution copied them, during a walk
/// over a graph.
class MemoryCopies {
 public:
  /// Adds a call of the walk: its outputs may share memory with its operands.
  void add_call(const Node& node) {
    sharing_.add(node);
  }
  /// `copy` holds the current contents of `value` in its own memory.
  void add_copy(const Value* copy, const Value* value);

  /// A value that has the same contents as the value that is now written to, but other memory, and that is read after
  /// the write: the program expects one tensor where there would be two. `is_read_later(value)` is asked for both;
  /// nullptr if there is none.
  const Value* parted_by_write(const Value* written, const std::function<bool(const Value*)>& is_read_later) const;
  /// The first value that had the value's contents, copied or not.
  const Value* original_of(const Value* value) const;
  /// All values that share the value's memory.
  std::vector<const Value*> values_sharing(const Value* value) const {
    return sharing_.values_sharing(value);
  }

 private:
  MemorySharing sharing_{Forwarding::Known};
  ValueTable<const Value*> copied_from_; // the sources of copies; a copy is the first value in its memory
  ValueTable<c10::SmallVector<const Value*, 1>> copies_;
};

} // namespace weft::graph
