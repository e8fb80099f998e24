#include "weft/graph/capture/trace.h"

#include <gtest/gtest.h>

namespace weft::graph {

namespace trace_test {
TracedCall& add(std::vector<std::unique_ptr<TracedCall>>& calls, const char* name, const char* overload = "") {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
  calls.push_back(std::make_unique<TracedCall>(TracedCall{.target = op}));
  return *calls.back();
}

std::vector<std::string> names(const Trace& trace) {
  std::vector<std::string> result;
  for (const auto* call : trace.program()) {
    result.push_back(std::get<c10::OperatorHandle>(call->target).schema().name());
  }
  return result;
}

TEST(Trace, ItsProgramHasTheOuterCallsOrTheInnerOnes) {
  Trace trace;
  auto& linear = add(trace.calls, "aten::linear");
  add(linear.inner, "aten::t");
  add(linear.inner, "aten::mm");
  add(trace.calls, "aten::contiguous").is_dropped = true;
  auto& written = add(trace.calls, "aten::mul_", "Tensor");
  auto& copy = add(written.inner, "aten::clone");
  EXPECT_EQ(names(trace), (std::vector<std::string>{"aten::linear", "aten::mul_"}));
  linear.is_expanded = true;
  copy.is_kept = true;
  EXPECT_EQ(names(trace), (std::vector<std::string>{"aten::t", "aten::mm", "aten::clone", "aten::mul_"}));
}

TEST(Trace, KnowsCallsThatWrite) {
  Trace trace;
  EXPECT_TRUE(is_mutating(add(trace.calls, "aten::mul_", "Tensor")));
  EXPECT_FALSE(is_mutating(add(trace.calls, "aten::mul", "Tensor")));
  TracedCall step{.target = Step{StepKind::AllReduce, {0}, {Partial()}, {Replicate()}}};
  EXPECT_FALSE(is_mutating(step));
}

} // namespace trace_test

} // namespace weft::graph
