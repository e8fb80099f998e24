#pragma once

#include "tests/integration/samples.h"

#include <string>
#include <vector>

namespace weft::testing {

/// A way to run a call on two ranks that is right without communication, found by trying: every rank calls the operator
/// on what it holds, and what they get is read as these placements of the outputs.
struct FoundStrategy {
  std::string text; // "{S(0)} {R} -> {S(0)}"
  bool is_offered;  // dispatch runs a call with such inputs without communication, too
};

/// All of them, for inputs R, S(d) and P(sum). Only what holds for any values counts: each is tried on several inputs.
/// Calls whose results do not depend on their inputs' values are left out, and so are those that state sizes, which are
/// not the same on a part.
std::vector<FoundStrategy> find_strategies(const Sample& sample);

} // namespace weft::testing
