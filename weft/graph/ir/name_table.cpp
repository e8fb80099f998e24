#include "weft/graph/ir/name_table.h"

namespace weft::graph {

const std::string* NameTable::fresh(std::string_view wanted) {
  if (const auto* added = add(wanted)) {
    return added;
  }
  auto& suffix = next_suffix_[std::string(wanted)];
  while (true) {
    const auto name = std::string(wanted) + "_" + std::to_string(++suffix);
    if (const auto* added = add(name)) {
      return added;
    }
  }
}

const std::string* NameTable::add(std::string_view name) {
  if (2 * (names_.size() + 1) > slots_.size()) {
    grow();
  }
  const auto hash = static_cast<uint32_t>(std::hash<std::string_view>()(name));
  const auto mask = slots_.size() - 1;
  auto at = hash & mask;
  for (; slots_[at].place != 0; at = (at + 1) & mask) {
    if (slots_[at].hash == hash && names_[slots_[at].place - 1] == name) {
      return nullptr;
    }
  }
  names_.emplace_back(name);
  slots_[at] = {hash, static_cast<uint32_t>(names_.size())};
  return &names_.back();
}

void NameTable::grow() {
  constexpr size_t kFirst = 16;
  std::vector<Slot> larger(slots_.empty() ? kFirst : 2 * slots_.size());
  const auto mask = larger.size() - 1;
  for (const auto& slot : slots_) {
    if (slot.place != 0) {
      auto at = slot.hash & mask;
      while (larger[at].place != 0) {
        at = (at + 1) & mask;
      }
      larger[at] = slot;
    }
  }
  slots_ = std::move(larger);
}

} // namespace weft::graph
