#include "weft/graph/parallelize/tensor_parallel_options.h"

#include "tests/support/error_text.h"
#include "weft/graph/ir/parse.h"

namespace weft::graph {

namespace tensor_parallel_options_test {
using namespace weft::testing;

TEST(TensorParallelOptions, LayoutsMustBeOfInputsAndOutputsThatThereAre) {
  const auto program = parse_program("program\ninput %x: f32[4] = user\noutput %x = user\n");
  const auto mesh = DeviceMesh::parse("mesh(tp=2)");
  const auto error = [&](const TensorParallelOptions& options) {
    return error_text<c10::ValueError>([&] { options.check(program, mesh); });
  };
  TensorParallelOptions good;
  good.inputs.emplace("x", Layout({Shard(0)}));
  good.outputs.emplace(0, Layout({Shard(0)}));
  good.check(program, mesh);

  TensorParallelOptions input;
  input.inputs.emplace("z", Layout({Shard(0)}));
  expect_contains(error(input), "a layout is given for the input \"z\", but the program's inputs are x.");
  TensorParallelOptions output;
  output.outputs.emplace(3, Layout({Shard(0)}));
  expect_contains(error(output), "a layout is given for output 3, but the program has 1 outputs.");
  TensorParallelOptions layout;
  layout.inputs.emplace("x", Layout({Shard(0), Replicate()}));
  expect_contains(error(layout), "with a placement for every dim of mesh(tp=2) is required, but got {S(0), R}.");
}

} // namespace tensor_parallel_options_test

} // namespace weft::graph
