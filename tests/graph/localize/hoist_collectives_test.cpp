#include "weft/graph/localize/hoist_collectives.h"

#include "tests/support/program_text.h"

namespace weft::graph {

namespace hoist_collectives_test {
using testing::expect_pass;
using testing::expect_unchanged;

bool hoist(Graph& graph) {
  return hoist_collectives(graph);
}

TEST(HoistCollectives, StartsEarlyAndWaitsLate) {
  expect_pass(
      hoist,
      R"(program @ mesh(tp=2)
      input %x: f32[4] = user
        %a: f32[4] = aten::relu(%x)
        %b: f32[4] = aten::sigmoid(%x)
        %r: f32[4] = _c10d_functional::all_reduce(%a, "sum", "tp")
        %w: f32[4] = _c10d_functional::wait_tensor(%r)
        %c: f32[4] = aten::tanh(%b)
        %d: f32[4] = aten::add.Tensor(%w, %c)
      output %d = user)",
      R"(program @ mesh(tp=2)
      input %x: f32[4] = user
        %a: f32[4] = aten::relu(%x)
        %r: f32[4] = _c10d_functional::all_reduce(%a, "sum", "tp")
        %b: f32[4] = aten::sigmoid(%x)
        %c: f32[4] = aten::tanh(%b)
        %w: f32[4] = _c10d_functional::wait_tensor(%r)
        %d: f32[4] = aten::add.Tensor(%w, %c)
      output %d = user)");
}

TEST(HoistCollectives, WhatIsGatheredFromInputsStartsAtTheBeginningInItsOrder) {
  expect_pass(
      hoist,
      R"(program @ mesh(tp=2)
      input %p: f32[2] = parameter "p"
      input %q: f32[2] = parameter "q"
      input %x: f32[4] = user
        %a: f32[4] = aten::relu(%x)
        %r: f32[4] = _c10d_functional::all_gather_into_tensor(%p, 2, "tp")
        %w: f32[4] = _c10d_functional::wait_tensor(%r)
        %b: f32[4] = aten::add.Tensor(%a, %w)
        %s: f32[4] = _c10d_functional::all_gather_into_tensor(%q, 2, "tp")
        %v: f32[4] = _c10d_functional::wait_tensor(%s)
        %c: f32[4] = aten::add.Tensor(%b, %v)
      output %c = user)",
      R"(program @ mesh(tp=2)
      input %p: f32[2] = parameter "p"
      input %q: f32[2] = parameter "q"
      input %x: f32[4] = user
        %r: f32[4] = _c10d_functional::all_gather_into_tensor(%p, 2, "tp")
        %s: f32[4] = _c10d_functional::all_gather_into_tensor(%q, 2, "tp")
        %a: f32[4] = aten::relu(%x)
        %w: f32[4] = _c10d_functional::wait_tensor(%r)
        %b: f32[4] = aten::add.Tensor(%a, %w)
        %v: f32[4] = _c10d_functional::wait_tensor(%s)
        %c: f32[4] = aten::add.Tensor(%b, %v)
      output %c = user)");
}

TEST(HoistCollectives, NoMoreAreUnderWayThanAsked) {
  expect_pass(
      [](Graph& graph) { return hoist_collectives(graph, 1); },
      R"(program @ mesh(tp=2)
      input %p: f32[2] = parameter "p"
      input %q: f32[2] = parameter "q"
      input %x: f32[4] = user
        %r: f32[4] = _c10d_functional::all_gather_into_tensor(%p, 2, "tp")
        %w: f32[4] = _c10d_functional::wait_tensor(%r)
        %a: f32[4] = aten::relu(%x)
        %b: f32[4] = aten::add.Tensor(%a, %w)
        %s: f32[4] = _c10d_functional::all_gather_into_tensor(%q, 2, "tp")
        %v: f32[4] = _c10d_functional::wait_tensor(%s)
        %c: f32[4] = aten::add.Tensor(%b, %v)
      output %c = user)",
      R"(program @ mesh(tp=2)
      input %p: f32[2] = parameter "p"
      input %q: f32[2] = parameter "q"
      input %x: f32[4] = user
        %r: f32[4] = _c10d_functional::all_gather_into_tensor(%p, 2, "tp")
        %a: f32[4] = aten::relu(%x)
        %w: f32[4] = _c10d_functional::wait_tensor(%r)
        %s: f32[4] = _c10d_functional::all_gather_into_tensor(%q, 2, "tp")
        %b: f32[4] = aten::add.Tensor(%a, %w)
        %v: f32[4] = _c10d_functional::wait_tensor(%s)
        %c: f32[4] = aten::add.Tensor(%b, %v)
      output %c = user)");
}

TEST(HoistCollectives, NoneOvertakesAnother) {
  // %s could start at once, but must start after %r, as on all other ranks.
  expect_pass(
      hoist,
      R"(program @ mesh(dp=2,tp=2)
      input %x: f32[4] = user
        %a: f32[4] = aten::relu(%x)
        %r: f32[4] = _c10d_functional::all_reduce(%a, "sum", "tp")
        %w: f32[4] = _c10d_functional::wait_tensor(%r)
        %b: f32[4] = aten::relu(%w)
        %s: f32[4] = _c10d_functional::all_reduce(%x, "sum", "dp")
        %v: f32[4] = _c10d_functional::wait_tensor(%s)
        %i: f32[4] = _c10d_functional::all_reduce_(%b, "sum", "tp")
        %t: f32[8] = _c10d_functional::all_gather_into_tensor(%x, 2, "dp")
        %u: f32[8] = _c10d_functional::wait_tensor(%t)
      output %v = user
      output %i = user
      output %u = user)",
      R"(program @ mesh(dp=2,tp=2)
      input %x: f32[4] = user
        %a: f32[4] = aten::relu(%x)
        %r: f32[4] = _c10d_functional::all_reduce(%a, "sum", "tp")
        %s: f32[4] = _c10d_functional::all_reduce(%x, "sum", "dp")
        %w: f32[4] = _c10d_functional::wait_tensor(%r)
        %b: f32[4] = aten::relu(%w)
        %i: f32[4] = _c10d_functional::all_reduce_(%b, "sum", "tp")
        %t: f32[8] = _c10d_functional::all_gather_into_tensor(%x, 2, "dp")
        %v: f32[4] = _c10d_functional::wait_tensor(%s)
        %u: f32[8] = _c10d_functional::wait_tensor(%t)
      output %v = user
      output %i = user
      output %u = user)");
}

TEST(HoistCollectives, ChainsStayChains) {
  expect_unchanged(
      hoist,
      R"(program @ mesh(dp=2,tp=2)
      input %x: f32[4] = user
        %r: f32[2] = _c10d_functional::reduce_scatter_tensor(%x, "sum", 2, "tp")
        %w: f32[2] = _c10d_functional::wait_tensor(%r)
        %s: f32[4] = _c10d_functional::all_gather_into_tensor(%w, 2, "tp")
        %v: f32[4] = _c10d_functional::wait_tensor(%s)
      output %v = user)");
}

TEST(HoistCollectives, NothingPassesAWriteToTheMemoryInvolved) {
  expect_pass(
      hoist,
      R"(program @ mesh(tp=2)
      input %x: f32[4] = user
      input %y: f32[4] = user
        %view: f32[2,2] = aten::view(%x, [2, 2])
        %one: f32[2,2] = aten::add_.Tensor(%view, 1)
        %a: f32[4] = aten::relu(%y)
        %r: f32[8] = _c10d_functional::all_gather_into_tensor(%x, 2, "tp")
        %w: f32[8] = _c10d_functional::wait_tensor(%r)
        %b: f32[4] = aten::relu(%a)
        %two: f32[2,2] = aten::add_.Tensor(%view, 1)
        %c: f32[4] = aten::relu(%b)
      output %w = user
      output %c = user)",
      R"(program @ mesh(tp=2)
      input %x: f32[4] = user
      input %y: f32[4] = user
        %view: f32[2,2] = aten::view(%x, [2, 2])
        %one: f32[2,2] = aten::add_.Tensor(%view, 1)
        %r: f32[8] = _c10d_functional::all_gather_into_tensor(%x, 2, "tp")
        %a: f32[4] = aten::relu(%y)
        %b: f32[4] = aten::relu(%a)
        %w: f32[8] = _c10d_functional::wait_tensor(%r)
        %two: f32[2,2] = aten::add_.Tensor(%view, 1)
        %c: f32[4] = aten::relu(%b)
      output %w = user
      output %c = user)");
}

TEST(HoistCollectives, AWaitThatOthersMayRelyOnStays) {
  // %b reads %r, the collective's result, and relies on the wait before it.
  expect_unchanged(
      hoist,
      R"(program @ mesh(tp=2)
      input %x: f32[4] = user
        %r: f32[4] = _c10d_functional::all_reduce(%x, "sum", "tp")
        %w: f32[4] = _c10d_functional::wait_tensor(%r)
        %a: f32[4] = aten::relu(%x)
        %b: f32[4] = aten::relu(%r)
        %c: f32[4] = aten::relu(%w)
      output %a = user
      output %b = user
      output %c = user)");
}

TEST(HoistCollectives, StepsOfAGlobalProgramStay) {
  expect_unchanged(
      hoist,
      R"(program @ mesh(tp=2)
      input %x: f32[4] {P(sum)} = user
        %a: f32[4] {P(sum)} = aten::mul.Tensor(%x, 2)
        %r: f32[4] {R} = all_reduce(%x, tp: {P(sum)} -> {R})
      output %a = user
      output %r = user)");
}

TEST(HoistCollectives, RandomProgramsComputeTheSameWithTheirCollectivesInOrder) {
  std::mt19937 random(7);
  for (int i = 0; i < 200; ++i) {
    const auto text = testing::random_rank_program(random, 5 + i % 40);
    for (const size_t in_flight : {1, 2, 16}) {
      testing::expect_same_results([=](Graph& graph) { return hoist_collectives(graph, in_flight); }, text);
      auto program = parse_program(text);
      const auto before = testing::collectives_of(program);
      hoist_collectives(*program.graph, in_flight);
      ASSERT_EQ(testing::collectives_of(program), before) << text;
    }
    ASSERT_FALSE(HasFailure()) << text;
  }
}

} // namespace hoist_collectives_test

} // namespace weft::graph
