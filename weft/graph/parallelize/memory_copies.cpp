#include "weft/graph/parallelize/memory_copies.h"

namespace weft::graph {

void MemoryCopies::add_copy(const Value* copy, const Value* value) {
  copied_from_[copy] = value;
  copies_[value].push_back(copy);
}

const Value* MemoryCopies::original_of(const Value* value) const {
  const auto* memory = sharing_.memory_of(value);
  while (const auto* source = copied_from_.get(memory)) {
    source = sharing_.memory_of(source);
    if (source->id() >= memory->id()) {
      break; // an operator that returns views of several tensors joined both memories
    }
    memory = source;
  }
  return memory;
}

const Value* MemoryCopies::parted_by_write(const Value* written, const std::function<bool(const Value*)>& is_read_later)
    const {
  // Copies of copies, and other copies of the same source, are the same tensor to the program too.
  const auto* const own = sharing_.memory_of(written);
  std::vector<const Value*> same = {original_of(written)};
  ValueSet seen;
  for (size_t i = 0; i < same.size(); ++i) {
    const auto* const memory = sharing_.memory_of(same[i]);
    if (seen.contains(memory)) {
      continue;
    }
    seen.insert(memory);
    for (const auto* value : values_sharing(memory)) {
      if (memory != own && is_read_later(value)) {
        return value;
      }
      const auto copies = copies_.get(value);
      same.insert(same.end(), copies.begin(), copies.end());
    }
  }
  return nullptr;
}

} // namespace weft::graph
