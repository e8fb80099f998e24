#pragma once

#include "tests/support/rank_programs.h"
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

/// That the pass keeps what a program of a rank computes, whenever its collectives read what they move.
template <class Pass>
void expect_same_results(const Pass& pass, const std::string& text) {
  const auto expected = run_alone(graph::parse_program(text), Transfer::AtStart);
  auto program = graph::parse_program(text);
  pass(*program.graph);
  graph::verify(program);
  for (const auto transfer : {Transfer::AtStart, Transfer::AtWait}) {
    const auto results = run_alone(program, transfer);
    ASSERT_EQ(results.size(), expected.size());
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_TRUE(results[i].equal(expected[i])) << i << " of\n"
                                                 << text << "\ndiffers in\n"
                                                 << graph::to_string(program);
    }
  }
  ASSERT_FALSE(pass(*program.graph)) << "a second run changes\n" << text;
}

} // namespace weft::testing
