#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::graph {

/// The unique names of a graph's values. A name is never freed and keeps its address.
class NameTable {
 public:
  /// The given name, or if it is taken a numbered one, as in exported programs: add, add_1, add_2.
  const std::string* fresh(std::string_view wanted);

 private:
  /// Returns nullptr if the name is taken.
  const std::string* add(std::string_view name);
  void grow();

  /// A slot stores the hash, so that a lookup reads adjacent hashes and compares few of the names themselves.
  struct Slot {
    uint32_t hash = 0;
    uint32_t place = 0; // index of the name plus one; 0 marks an empty slot
  };

  std::deque<std::string> names_;
  std::vector<Slot> slots_; // their number is a power of two, and at most half are in use
  std::unordered_map<std::string, size_t> next_suffix_;
};

} // namespace weft::graph
