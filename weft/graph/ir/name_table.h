#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft::graph {

/// The names of a graph's values, each once. A name stays taken, and where it is.
class NameTable {
 public:
  /// The name, or where it is taken one that is made of it, as exported programs count: add, add_1, add_2.
  const std::string* fresh(std::string_view wanted);

 private:
  /// nullptr where it is taken.
  const std::string* add(std::string_view name);
  void grow();

  /// Looked up among hashes that lie together, so that of the names themselves few are touched.
  struct Slot {
    uint32_t hash = 0;
    uint32_t place = 0; // of the name, counted from one; none: empty
  };

  std::deque<std::string> names_;
  std::vector<Slot> slots_; // a power of two of them, at most half in use
  std::unordered_map<std::string, size_t> next_suffix_;
};

} // namespace weft::graph
