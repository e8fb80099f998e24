#include "weft/propagation/decomposition.h"

#include <c10/util/Exception.h>

namespace weft {

namespace {

Decompositions (*make_decompositions)() = nullptr;

} // namespace

DecompositionSource::DecompositionSource(Decompositions (*make)()) {
  make_decompositions = make;
}

const Decomposition* find_decomposition(const std::string& full_name) {
  TORCH_INTERNAL_ASSERT(make_decompositions != nullptr, "the library was linked without decompositions");
  static const auto* decompositions = new Decompositions(make_decompositions());
  const auto found = decompositions->find(full_name);
  return found == decompositions->end() ? nullptr : &found->second;
}

} // namespace weft
