#include "weft/graph/replay/recorded_call.h"

#include "tests/support/on_meshes.h"
#include "weft/tensor/distribute.h"

namespace weft::graph {

namespace recorded_call_test {
using namespace weft::testing;
using Tensors = std::vector<at::Tensor>;

std::string difference_of(const CapturedFunction& before, const CapturedFunction& after) {
  const Tensors inputs{at::ones({2})};
  return difference(capture_local(before, inputs), capture_local(after, inputs));
}

CapturedFunction times(const at::Tensor& factor) {
  return [=](const Tensors& in) { return Tensors{in[0] * factor}; };
}

TEST(RecordedCall, EqualCallsDoNotDiffer) {
  const auto factor = at::ones({2});
  EXPECT_EQ(difference_of(times(factor), times(factor)), "");
  const CapturedFunction by_number = [](const Tensors& in) { return Tensors{at::where(in[0] > 0, in[0], 0.5)}; };
  EXPECT_EQ(difference_of(by_number, by_number), "") << "a number of the text is a new tensor in every call";
}

TEST(RecordedCall, OtherOperatorsNumbersAndMemoryDiffer) {
  const auto by = [](double number) -> CapturedFunction {
    return [=](const Tensors& in) { return Tensors{in[0] * number}; };
  };
  EXPECT_EQ(
      difference_of(by(0.25), by(0.5)),
      "it did '%mul: f32[2] = aten::mul.Scalar(%input_0, 0.25)' and then '%mul: f32[2] = aten::mul.Scalar(%input_0, "
      "0.5)'");
  EXPECT_NE(
      difference_of(by(2), [](const Tensors& in) { return Tensors{in[0].relu()}; }).find("aten::relu"),
      std::string::npos);
  const auto text = difference_of(times(at::ones({2})), times(at::ones({2})));
  EXPECT_EQ(
      text,
      "a tensor of shape [2] that no recorded operator made is another one in every call, which "
      "'%mul: f32[2] = aten::mul.Tensor(%input_0, %c_constant_0)' reads");
}

TEST(RecordedCall, ResultsOfOtherLayoutsDiffer) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = at::ones({2});
    const auto as = [&](const Layout& layout) {
      return capture_local([&](const Tensors& in) { return Tensors{from_local(in[0] + 1, mesh, layout)}; }, {x});
    };
    EXPECT_EQ(
        difference(as({Shard(0)}), as({Replicate()})),
        "result 0 was f32[4] @ mesh(a=2) {S(0)} and then f32[2] @ mesh(a=2) {R}");
  });
}

} // namespace recorded_call_test

} // namespace weft::graph
