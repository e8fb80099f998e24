#pragma once

#include "weft/rules/rule.h"

namespace weft {

/// The dims of two shapes with the same number of elements, as common factors: [12,8] and [3,4,8] are [(a b),c] and
/// [a,b,c]. The slowest common factor of dims that intersect may be sharded as well: 12 x 8 and 16 x 6 are [(a b),-]
/// and [(a c),-], with a of size 4. Dims without a common factor (2 x 3 and 3 x 2) cannot be sharded and get none.
struct DimMap {
  Rule::Dims from;
  Rule::Dims to;
};
DimMap map_dims(Rule& rule, c10::IntArrayRef from, c10::IntArrayRef to);

} // namespace weft
