#include "weft/graph/localize/localize.h"

#include "tests/support/error_text.h"
#include "weft/graph/ir/parse.h"
#include "weft/graph/ir/print.h"

#include <ATen/ATen.h>

namespace weft::graph {

namespace localize_test {
using namespace weft::testing;

constexpr const char* kText = R"(
program @ mesh(tp=2)
symbol s0 = 4 in [2, 64]
input %w: f32[5,8] {S(0)} = parameter "w"
input %x: f32[s0,8] {R} = user
  %a: f32[s0,5] {S(1)} = aten::linear(%x, %w)
  %n: int(5) = aten::sym_size.int(%a, 1)
  %m: int(s0) = aten::sym_size.int(%x, 0)
  %full: f32[s0,5] {R} = aten::full([%m, %n], 1.0)
  %all_gather: f32[s0,5] {R} = all_gather(%a, tp: {S(1)} -> {R})
  %add: f32[s0,5] {R} = aten::add.Tensor(%all_gather, %full)
output %add = user
)";

TEST(Localize, ARankHasItsLocalTensorsAndTheGlobalSizes) {
  auto program = parse_program(kText);
  program.tensors["w"] = at::arange(40, at::kFloat).view({5, 8});
  const auto last = localize(program, 1);
  EXPECT_EQ(to_string(last), R"(program @ mesh(tp=2)
symbol s0 = 4 in [2, 64]
input %w: f32[2,8] = parameter "w"
input %x: f32[s0,8] = user
  %a: f32[s0,2] = aten::linear(%x, %w)
  %m: int(s0) = aten::sym_size.int(%x, 0)
  %full: f32[s0,5] = aten::full([%m, 5], 1.0)
  %constant_pad_nd: f32[s0,3] = aten::constant_pad_nd(%a, [0, 1])
  %all_gather_into_tensor: f32[s0*2,3] = _c10d_functional::all_gather_into_tensor(%constant_pad_nd, 2, "tp")
  %wait_tensor: f32[s0*2,3] = _c10d_functional::wait_tensor(%all_gather_into_tensor)
  [%split_with_sizes: f32[s0,3], %split_with_sizes_1: f32[s0,3]] = aten::split_with_sizes(%wait_tensor, [%m, %m], 0)
  %cat: f32[s0,6] = aten::cat([%split_with_sizes, %split_with_sizes_1], 1)
  %slice: f32[s0,5|6,1] = aten::slice.Tensor(%cat, 1, 0, 5)
  %clone: f32[s0,5] = aten::clone(%slice, memory_format=contiguous_format)
  %add: f32[s0,5] = aten::add.Tensor(%clone, %full)
output %add = user
)");
  EXPECT_TRUE(last.tensors.at("w").equal(program.tensors["w"].narrow(0, 3, 2)));
  EXPECT_EQ(last.tensors.at("w").storage().data(), program.tensors["w"].storage().data());
}

TEST(Localize, OnlyARankOfAShardedProgramHasOne) {
  expect_contains(
      error_text<c10::ValueError>([] { localize(parse_program(kText), 2); }),
      "[localize] a rank of mesh(tp=2) is required, but got 2.");
  expect_contains(
      error_text<c10::ValueError>(
          [] { localize(parse_program("program\ninput %x: f32[4] = user\noutput %x = user\n"), 0); }),
      "[localize] a program that tensor_parallel made parallel is required.");
}

} // namespace localize_test

} // namespace weft::graph
