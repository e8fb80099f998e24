#include "weft/graph/exec/instruction.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/program_builder.h"
#include "weft/graph/exec/executor.h"

#include <ATen/ATen.h>

namespace weft::graph {

namespace instruction_test {

using namespace weft::testing;

using Build = std::function<void(ProgramBuilder& build, Value* x)>;

/// Runs a program of one input of any size on `x`.
std::vector<c10::IValue> outputs_on(const at::Tensor& x, const Build& add_nodes) {
  ProgramBuilder build;
  Sizes sizes;
  for (int64_t d = 0; d < x.dim(); ++d) {
    sizes.push_back(Size::symbol("s" + std::to_string(d)));
  }
  add_nodes(build, build.input("x", x.scalar_type(), sizes));
  Executor executor(build.finish());
  executor.run({x.clone()});
  return executor.run({x});
}

TEST(Instruction, FillsInDefaults) {
  const auto x = whole_numbers({2, 3});
  const auto outputs = outputs_on(x, [](auto& build, auto* value) {
    build.output(build.call("aten::sum.dim_IntList", {value, std::vector<int64_t>{1}}));
    build.output(build.call("aten::add.Tensor", {value, value, 3}));
  });
  expect_equal(outputs[0].toTensor(), x.sum(1));
  expect_equal(outputs[1].toTensor(), x * 4);
}

TEST(Instruction, GivesSeveralOutputsAndLists) {
  const auto x = whole_numbers({4, 3});
  const auto outputs = outputs_on(x, [](auto& build, auto* value) {
    auto* top = build.node("aten::topk", {value, 2});
    build.output(top->output(1));
    build.output(top->output(0));
    const auto halves = build.call_list("aten::split.Tensor", {value, 3}, 2);
    build.output(halves[1]);
    build.output(build.call("aten::cat", {{halves[1], halves[0]}}));
  });
  expect_equal(outputs[0].toTensor(), std::get<1>(x.topk(2)));
  expect_equal(outputs[1].toTensor(), std::get<0>(x.topk(2)));
  expect_equal(outputs[2].toTensor(), x.narrow(0, 3, 1));
  expect_equal(outputs[3].toTensor(), at::cat({x.narrow(0, 3, 1), x.narrow(0, 0, 3)}));
}

TEST(Instruction, RefusesAListOfAnotherLength) {
  const auto text = error_text<c10::ValueError>([] {
    outputs_on(whole_numbers({7}), [](auto& build, auto* value) {
      build.output(build.call_list("aten::split.Tensor", {value, 3}, 2)[0]);
    });
  });
  expect_contains(text, "[Executor] aten::split.Tensor must give 2 values, as when the program was made, but gave 3.");
}

TEST(Instruction, ReadsSizes) {
  const auto x = whole_numbers({2, 3});
  const auto outputs = outputs_on(x, [](auto& build, auto* value) {
    auto* transposed = build.call("aten::t", {value});
    build.output(build.call("aten::sym_size.int", {value, -1}));
    build.output(build.call("aten::sym_stride.int", {transposed, 0}));
    build.output(build.call("aten::sym_numel", {transposed}));
    build.output(build.call("aten::sym_storage_offset", {build.call("aten::select.int", {value, 0, 1})}));
  });
  EXPECT_EQ(outputs[0].toInt(), 3);
  EXPECT_EQ(outputs[1].toInt(), 1);
  EXPECT_EQ(outputs[2].toInt(), 6);
  EXPECT_EQ(outputs[3].toInt(), 3);
}

TEST(Instruction, ComputesSizesAndPutsThemInLists) {
  const auto x = whole_numbers({4, 6});
  const auto outputs = outputs_on(x, [](auto& build, auto* value) {
    auto* rows = build.call("aten::sym_size.int", {value, 0});
    auto* columns = build.call("aten::sym_size.int", {value, 1});
    auto* half = build.call("_operator.floordiv", {columns, 2});
    build.output(build.call("aten::view", {value, {rows, 2, half}}));
    build.output(build.call("aten::mul.Scalar", {value, half}));
    // A number of the program where a float is asked for.
    build.output(build.call("aten::dropout", {value, build.call("_operator.sub", {rows, 4}), true}));
    build.output(build.call("aten::upsample_nearest1d", {build.call("aten::unsqueeze", {value, 0}), {columns}, 1.0}));
  });
  expect_equal(outputs[0].toTensor(), x.view({4, 2, 3}));
  expect_equal(outputs[1].toTensor(), x * 3);
  expect_equal(outputs[2].toTensor(), x);
  expect_equal(outputs[3].toTensor(), x.unsqueeze(0));
}

TEST(Instruction, TakesConstantsAsPythonWritesThem) {
  const auto x = whole_numbers({1, 1, 4, 4});
  const auto outputs = outputs_on(x, [](auto& build, auto* value) {
    build.output(build.call("aten::avg_pool2d", {value, 2, 1})); // one number for both dims
    build.output(build.call("aten::leaky_relu", {value, 2}));
    build.output(build.call("aten::dropout", {value, 0, true})); // an int where a float is asked for
  });
  expect_equal(outputs[0].toTensor(), at::avg_pool2d(x, {2, 2}, {1, 1}));
  expect_equal(outputs[1].toTensor(), at::leaky_relu(x, 2));
  expect_equal(outputs[2].toTensor(), x);
}

TEST(Instruction, TakesListsWithAbsentTensors) {
  const auto x = whole_numbers({3, 4});
  const auto outputs = outputs_on(x, [](auto& build, auto* value) {
    auto* index = build.parameter("index", at::tensor({2, 0}, at::kLong));
    build.output(build.call("aten::index.Tensor", {value, {c10::IValue(), index}}));
  });
  expect_equal(outputs[0].toTensor(), x.index({at::indexing::Slice(), at::tensor({2, 0}, at::kLong)}));
}

TEST(Instruction, RunsOperatorsThatGiveNothingAndNumbers) {
  const auto outputs = outputs_on(whole_numbers({1}), [](auto& build, auto* value) {
    auto* number = build.call("aten::item", {value});
    build.node("aten::_assert_scalar", {build.call("_operator.le", {number, 0}), "it is positive"});
    build.output(build.call("aten::mul.Scalar", {value, number}));
  });
  expect_equal(outputs[0].toTensor(), at::full({1}, 16.0));
  const auto text = error_text([] {
    outputs_on(at::ones({1}), [](auto& build, auto* value) {
      auto* number = build.call("aten::item", {value});
      build.node("aten::_assert_scalar", {build.call("_operator.le", {number, 0}), "it is positive"});
    });
  });
  expect_contains(text, "it is positive");
}

TEST(Instruction, WritesToTheTensorsOfAList) {
  const auto x = whole_numbers({3});
  const auto outputs = outputs_on(x, [](auto& build, auto* value) {
    auto* a = build.call("aten::clone", {value});
    auto* b = build.call("aten::neg", {value});
    build.node("aten::_foreach_add_.Scalar", {std::vector{a, b}, 2});
    build.output(a);
    build.output(b);
  });
  expect_equal(outputs[0].toTensor(), x + 2);
  expect_equal(outputs[1].toTensor(), 2 - x);
}

} // namespace instruction_test

} // namespace weft::graph
