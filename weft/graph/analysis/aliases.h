#pragma once

#include "weft/graph/ir/value_table.h"
#include "weft/propagation/operator_schema.h"

#include <functional>

namespace weft::graph {

/// Which values of a graph share memory: views, and what in-place operators return. Kept up while a graph is walked.
class Aliases {
 public:
  /// The number of the memory that a value lies in.
  size_t memory_of(const Value* value);
  /// After a call: its outputs lie where the schema says, or in memory of their own.
  void add_call(const Node& node, const OperatorSchema& schema);
  /// `copy` holds, in memory of its own, what `value` holds now.
  void add_copy(const Value* copy, const Value* value);
  /// A value that shares contents, but not memory, with one that is written to now, and is still read after it: the program
  /// means one tensor where there would be two. `is_read_later(value)` is asked of both sides; nullptr where there is none.
  const Value* parted_by_write(const Value* written, const std::function<bool(const Value*)>& is_read_later);
  /// The first value whose contents, copied or not, the value has.
  const Value* original_of(const Value* value);
  /// Values that lie in a memory.
  c10::ArrayRef<const Value*> values_in(size_t memory) const {
    return memories_[memory].values;
  }

 private:
  struct Memory {
    c10::SmallVector<const Value*, 1> values;
    std::optional<size_t> copied_from;
    c10::SmallVector<size_t, 1> copies;
  };

  void place(const Value* value, size_t memory);

  std::vector<Memory> memories_;
  ValueTable<size_t> of_value_; // its memory, counted from one
};

/// The operands of a node that lie in an argument, or none.
std::vector<size_t> operands_of_argument(const Node& node, size_t argument);

} // namespace weft::graph
