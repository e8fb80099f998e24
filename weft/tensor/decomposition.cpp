#include "weft/tensor/decomposition.h"

#include <unordered_map>

namespace weft {

const Decomposition* find_decomposition(const std::string& full_name) {
  static const std::unordered_map<std::string, Decomposition> decompositions;
  const auto found = decompositions.find(full_name);
  return found == decompositions.end() ? nullptr : &found->second;
}

} // namespace weft
