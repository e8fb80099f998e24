#include "weft/graph/analysis/aliases.h"

#include "weft/graph/ir/schema_gaps.h"

namespace weft::graph {

size_t Aliases::memory_of(const Value* value) {
  auto& memory = of_value_[value];
  if (memory == 0) {
    memories_.push_back({{value}, std::nullopt, {}});
    memory = memories_.size();
  }
  return memory - 1;
}

void Aliases::place(const Value* value, size_t memory) {
  of_value_[value] = memory + 1;
  memories_[memory].values.push_back(value);
}

void Aliases::add_call(const Node& node, const OperatorSchema& schema) {
  size_t next = 0;
  for (size_t r = 0; r < schema.returns.size() && r < node.output_lists().size(); ++r) {
    const auto count = std::max<int64_t>(node.output_lists()[r], node.output_lists()[r] == Node::kSingle ? 1 : 0);
    const auto argument = schema.returns[r].stored_in >= 0 ? schema.returns[r].stored_in
        : may_give_back_operand(*node.op())                ? 0
                                                           : schema.returns[r].view_of;
    const auto sources = argument >= 0 ? operands_of_argument(node, argument) : std::vector<size_t>{};
    for (int64_t k = 0; k < count; ++k, ++next) {
      const auto* output = node.output(next);
      if (output == nullptr || sources.empty()) {
        continue;
      }
      const auto source = sources.size() == static_cast<size_t>(count) ? sources[k] : sources[0];
      place(output, memory_of(node.operand(source)));
    }
  }
}

void Aliases::add_copy(const Value* copy, const Value* value) {
  const auto source = memory_of(value);
  const auto target = memory_of(copy);
  memories_[target].copied_from = source;
  memories_[source].copies.push_back(target);
}

const Value* Aliases::parted_by_write(const Value* written, const std::function<bool(const Value*)>& is_read_later) {
  // Copies of copies, and other copies of what this one is of, are the same tensor to the program too.
  const auto own = memory_of(written);
  auto root = own;
  while (memories_[root].copied_from) {
    root = *memories_[root].copied_from;
  }
  std::vector<size_t> same = {root};
  for (size_t i = 0; i < same.size(); ++i) {
    const auto& copies = memories_[same[i]].copies;
    same.insert(same.end(), copies.begin(), copies.end());
  }
  for (const auto memory : same) {
    if (memory == own) {
      continue;
    }
    for (const auto* value : memories_[memory].values) {
      if (is_read_later(value)) {
        return value;
      }
    }
  }
  return nullptr;
}

const Value* Aliases::original_of(const Value* value) {
  auto memory = memory_of(value);
  while (memories_[memory].copied_from) {
    memory = *memories_[memory].copied_from;
  }
  return memories_[memory].values[0];
}

std::vector<size_t> operands_of_argument(const Node& node, size_t argument) {
  const auto& given = node.arguments()[argument];
  if (given.is_operand()) {
    return {given.operand()};
  }
  std::vector<size_t> result;
  if (given.is_list()) {
    for (const auto& element : given.elements()) {
      if (element.is_operand()) {
        result.push_back(element.operand());
      }
    }
  }
  return result;
}

} // namespace weft::graph
