#pragma once

#include "weft/graph/overlap/micro_pipeline.h"

namespace weft::testing {

/// Two hosts with a slow link between them.
graph::OverlapOptions overlap_options(OverlapMode mode = OverlapMode::Force);

struct Overlapped {
  std::string program;            // as text
  std::vector<std::string> lines; // "%gather: fused with 2 matmuls", "%gather: <why not>"
  graph::OverlapDecisions decisions;
};
/// A program, given as text, with the pass run on it, which leaves a valid one and has nothing more to do then.
Overlapped overlapped(std::string_view text, OverlapMode mode = OverlapMode::Force);

/// That it becomes another, whose text is that.
void expect_overlapped(std::string_view before, std::string_view after);
/// That nothing changes, and the one collective is told why.
void expect_not_overlapped(std::string_view text, const std::string& why);

/// Runs a program with layouts, given as text, on the ranks of its mesh as threads, with and without overlap, on the same
/// numbers drawn from a seed, and expects the same outputs. Gives the decisions.
graph::OverlapDecisions expect_same_overlapped(const std::string& text);

} // namespace weft::testing
