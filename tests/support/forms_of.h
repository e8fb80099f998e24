#pragma once

#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/verify.h"
#include "weft/graph/overlap/collective_text.h"

namespace weft::testing {

/// What find_collectives finds in a program that is given as text and has to be valid.
inline std::string forms_of(const std::string& text) {
  const auto program = graph::parse_program(text);
  graph::verify(program);
  return graph::to_string(graph::find_collectives(program));
}

} // namespace weft::testing
