#pragma once

#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/ir/verify.h"

#include <gtest/gtest.h>

namespace weft::testing {

/// That a pass makes the second program of the first, as texts, both of them valid, and has nothing more to do then.
template <class Pass>
void expect_pass(const Pass& pass, std::string_view before, std::string_view after) {
  auto program = graph::parse_program(before);
  graph::verify(program);
  const auto unchanged = graph::to_string(program);
  const bool changed = pass(*program.graph);
  graph::verify(program);
  const auto expected = graph::to_string(graph::parse_program(after));
  EXPECT_EQ(graph::to_string(program), expected);
  EXPECT_EQ(changed, unchanged != expected);
  EXPECT_FALSE(pass(*program.graph)) << "the second run changed the program to\n" << graph::to_string(program);
  EXPECT_EQ(graph::to_string(program), expected);
}

template <class Pass>
void expect_unchanged(const Pass& pass, std::string_view text) {
  expect_pass(pass, text, text);
}

} // namespace weft::testing
