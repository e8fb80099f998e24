#include "weft/styles/plain_shards.h"

#include <algorithm>

namespace weft::nn {

namespace {

bool differs_between_ranks(const Crossing& crossing) {
  return crossing.to && !crossing.to->is_replicate();
}

} // namespace

bool has_plain_shards(const ModuleLayout& layout) {
  if (layout.entry == nullptr) {
    return false;
  }
  const auto any = [](const auto& crossings) {
    return std::any_of(crossings.begin(), crossings.end(), differs_between_ranks);
  };
  const auto& style = layout.entry->style;
  const bool takes = any(layout.inputs) ||
      std::any_of(style.keyword_inputs.begin(), style.keyword_inputs.end(),
                  [](const auto& named) { return differs_between_ranks(named.second); });
  return (style.local_inputs && takes) || (style.local_outputs && any(layout.outputs));
}

} // namespace weft::nn
