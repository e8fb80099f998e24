#include "weft/graph/capture/recorder.h"

#include "tests/support/error_text.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <torch/torch.h>

namespace weft::graph {

namespace recorder_test {
using namespace weft::testing;

std::string operators_of(const Trace& trace) {
  std::string text;
  for (const auto* call : trace.program()) {
    text += (text.empty() ? "" : " ") + std::get<c10::OperatorHandle>(call->target).schema().name().substr(6);
  }
  return text;
}

TEST(Recorder, RecordsCallsOnValues) {
  const auto x = at::ones({2, 3});
  Trace trace;
  ValueId input = 0;
  ValueId output = 0;
  {
    Recorder recorder;
    input = recorder.input(x);
    output = recorder.output(x.mul(2).relu());
    trace = recorder.finish();
  }
  x.exp();
  EXPECT_EQ(operators_of(trace), "mul relu");
  const auto calls = trace.program();
  EXPECT_EQ(calls[0]->operands, std::vector<ValueId>{input});
  EXPECT_EQ(calls[0]->arguments[1].constant().toInt(), 2);
  EXPECT_EQ(calls[1]->outputs[0], std::optional(output));
  EXPECT_EQ(std::get<TensorType>(trace.values[output].type).sizes, (Sizes{2, 3}));
}

TEST(Recorder, ArgumentsAsByDefaultAreAbsent) {
  const auto x = at::ones({2});
  Recorder recorder;
  recorder.input(x);
  at::add(x, x);
  at::add(x, x, 2);
  const auto trace = recorder.finish();
  const auto calls = trace.program();
  EXPECT_EQ(calls[0]->operands.size(), 1U) << "one value, twice";
  EXPECT_TRUE(calls[0]->arguments[2].is_absent());
  EXPECT_EQ(calls[1]->arguments[2].constant().toInt(), 2);
}

TEST(Recorder, NumbersThatWereMadeTensorsAreNumbersAgain) {
  const auto x = at::ones({}, at::kFloat);
  Recorder recorder;
  recorder.input(x);
  at::mul(x, at::native::wrapped_scalar_tensor(2.5));
  at::pow(x, at::native::wrapped_scalar_tensor(3));
  const auto trace = recorder.finish();
  const auto calls = trace.program();
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(c10::toString(std::get<c10::OperatorHandle>(calls[0]->target).operator_name()), "aten::mul.Scalar");
  EXPECT_EQ(calls[0]->arguments[1].constant().toDouble(), 2.5);
  EXPECT_EQ(c10::toString(std::get<c10::OperatorHandle>(calls[1]->target).operator_name()), "aten::pow.Tensor_Scalar");
  EXPECT_EQ(calls[1]->arguments[1].constant().toInt(), 3);
  EXPECT_EQ(std::get<TensorType>(trace.values.back().type).dtype, at::kFloat);
}

TEST(Recorder, WhatGivesItsOperandBackIsNoCall) {
  const auto x = at::ones({2});
  Recorder recorder;
  const auto input = recorder.input(x);
  EXPECT_EQ(recorder.output(at::dropout(x.contiguous().to(at::kFloat), 0.5, /*train=*/false)), input);
  EXPECT_EQ(operators_of(recorder.finish()), "");
}

TEST(Recorder, WhatIsWrittenIsANewValueOfTheTensor) {
  auto x = at::ones({2});
  Recorder recorder;
  const auto before = recorder.input(x);
  x.add_(1);
  EXPECT_NE(recorder.output(x), before);
  EXPECT_EQ(recorder.output(x.variable_data()), recorder.output(x)) << "another object of the same memory";
}

TEST(Recorder, MemoryFilledPastTheOperatorsIsAConstant) {
  Recorder recorder;
  const auto filled = at::empty({2});
  filled.data_ptr<float>()[0] = 1;
  filled.data_ptr<float>()[1] = 2;
  const auto through_view = at::empty({2});
  const auto view = through_view.view({2, 1});
  view.relu();
  auto written = at::empty({2});
  written.fill_(3);
  const auto result = filled.add(written);
  const auto returned = recorder.output(at::empty({1}));
  const auto trace = recorder.finish();
  EXPECT_EQ(operators_of(trace), "view relu empty fill_ add");
  EXPECT_TRUE(trace.values[returned].constant.defined());
  size_t constants = 0;
  for (const auto& value : trace.values) {
    constants += value.constant.defined() ? 1 : 0;
  }
  EXPECT_EQ(constants, 3U);
}

/// Saves an inner tensor for the backward without returning it.
struct Keeping : torch::autograd::Function<Keeping> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const auto hidden = x.exp();
    context->save_for_backward({hidden});
    return hidden.mul(2);
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context,
      const torch::autograd::variable_list& gradients) {
    return {gradients[0].mul(context->get_saved_variables()[0]).mul(2)};
  }
};

at::Tensor keeping(const at::Tensor& x) {
  return Keeping::apply(x);
}

TORCH_LIBRARY(weft_recorder_test, library) {
  library.def("keeping(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(weft_recorder_test, Autograd, library) {
  library.impl("keeping", &keeping);
}

TEST(Recorder, FunctionsOfAutogradAreRecordedAsWhatTheyRun) {
  const auto x = at::ones({2}).requires_grad_();
  Recorder recorder;
  recorder.input(x);
  recorder.output(torch::autograd::grad({Keeping::apply(x).sum()}, {x})[0]);
  EXPECT_EQ(operators_of(recorder.finish()).find("exp mul sum"), 0U);
}

TEST(Recorder, WhatAnOperatorKeepsAndDoesNotGiveRaises) {
  const auto x = at::ones({2}).requires_grad_();
  const auto op = c10::Dispatcher::singleton()
                      .findSchemaOrThrow("weft_recorder_test::keeping", "")
                      .typed<at::Tensor(const at::Tensor&)>();
  Recorder recorder;
  recorder.input(x);
  const auto y = op.call(x);
  expect_contains(
      error_text<c10::NotImplementedError>([&] { torch::autograd::grad({y.sum()}, {x}); }),
      "that was made inside of weft_recorder_test::keeping. Write the function with other operators.");
}

} // namespace recorder_test

} // namespace weft::graph
