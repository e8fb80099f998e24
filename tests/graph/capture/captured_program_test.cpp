#include "weft/graph/capture/captured_program.h"

#include "tests/support/run_program.h"
#include "weft/graph/capture/recorder.h"

namespace weft::graph {

namespace captured_program_test {
using namespace weft::testing;

TEST(CapturedProgram, HasParametersBuffersConstantsAndInputsInThisOrder) {
  const auto x = at::ones({2});
  const auto scale = at::full({2}, 3.0);
  const auto count = at::zeros({2});
  const auto weight = at::full({2}, 2.0).set_requires_grad(true);
  const auto unused = at::ones({2});
  Recorder recorder;
  std::vector<Outside> outside{
      {recorder.input(x), InputKind::User, "input_0", x},
      {recorder.input(unused), InputKind::Buffer, "unused", unused}};
  count.add_(1);
  const auto result = recorder.output((x * scale + count) * weight);
  const auto program = program_of(recorder.finish(), std::move(outside), {result});
  std::string inputs;
  for (const auto& input : program.inputs) {
    inputs += input.value->name() + " ";
  }
  EXPECT_EQ(inputs, "p_parameter_0 b_buffer_0 c_constant_0 input_0 ");
  EXPECT_TRUE(program.tensors.at("buffer_0").is_same(count)) << "it is written to";
  EXPECT_TRUE(program.tensors.at("constant_0").is_same(scale));
  EXPECT_EQ(operators_of(*program.graph), "add_.Scalar mul.Tensor add.Tensor mul.Tensor");
}

} // namespace captured_program_test

} // namespace weft::graph
