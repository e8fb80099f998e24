#pragma once

#include "weft/rules/rule.h"

namespace weft {

/// The dims of two shapes of the same number of elements, in factors of both: [12,8] and [3,4,8] are [(a b),c] and
/// [a,b,c]. Dims that have no factor in common (12 x 8 and 16 x 6) cannot be cut and get none.
struct DimMap {
  Rule::Dims from;
  Rule::Dims to;
};
DimMap map_dims(Rule& rule, c10::IntArrayRef from, c10::IntArrayRef to);

} // namespace weft
