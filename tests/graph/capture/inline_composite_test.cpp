#include "weft/graph/capture/inline_composite.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/run_program.h"
#include "weft/comm/world/fake_world.h"
#include "weft/graph/capture/traced_type.h"
#include "weft/propagation/decomposition.h"
#include "weft/tensor/distribute.h"

namespace weft::graph {

namespace inline_composite_test {
using namespace weft::testing;

Argument operand(size_t number) {
  return Argument::operand(number);
}

/// A graph of one call on inputs like these that returns all outputs of the call.
struct OneCall {
  Graph graph;
  Node* node;

  OneCall(
      const std::string& name,
      const std::string& overload,
      Arguments arguments,
      const std::vector<at::Tensor>& inputs) {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
    std::vector<Value*> operands;
    for (const auto& input : inputs) {
      operands.push_back(graph.add_input("x", traced_type(input)));
    }
    arguments.resize(op.schema().arguments().size());
    torch::jit::Stack stack;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto& formal = op.schema().arguments()[i];
      const auto& argument = arguments[i];
      if (argument.is_list()) {
        c10::List<at::Tensor> list;
        for (const auto& element : argument.elements()) {
          list.push_back(inputs[element.operand()]);
        }
        stack.emplace_back(list);
      } else {
        stack.push_back(
            argument.is_absent()        ? formal.default_value().value()
                : argument.is_operand() ? c10::IValue(inputs[argument.operand()])
                                        : argument.constant());
      }
    }
    op.callBoxed(stack);
    OutputTypes outputs;
    for (const auto& value : stack) {
      if (value.isTensor()) {
        expected.push_back(value.toTensor());
        outputs.lists.push_back(Node::kSingle);
      } else {
        for (const auto& element : value.toTensorVector()) {
          expected.push_back(element);
        }
        outputs.lists.push_back(static_cast<int64_t>(value.toTensorVector().size()));
      }
    }
    for (const auto& tensor : expected) {
      outputs.types.emplace_back(traced_type(tensor));
    }
    node = graph.insert(nullptr, op, std::move(arguments), operands, outputs);
    node->origin.module = "layers.0";
    graph.set_return({node->outputs().begin(), node->outputs().end()});
  }

  std::vector<at::Tensor> expected;
};

void expect_same(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(at::allclose(actual[i], expected[i], 1e-5, 1e-6)) << actual[i] << "\ninstead of\n" << expected[i];
  }
}

TEST(InlineComposite, ACallBecomesWhatItIsMadeOf) {
  const std::vector<at::Tensor> inputs{at::randn({2, 3}), at::randn({4, 3}), at::randn({4})};
  OneCall call("aten::linear", "", {operand(0), operand(1), operand(2)}, inputs);
  EXPECT_TRUE(inline_composite(call.graph, call.node));
  EXPECT_EQ(operators_of(call.graph), "t addmm");
  EXPECT_EQ(call.graph.first()->origin.module, "layers.0");
  const auto& type = call.graph.return_node()->operand(0)->tensor();
  EXPECT_EQ(type, traced_type(call.expected[0])) << "on the program's device";
  expect_same(run_graph(call.graph, inputs), call.expected);
}

TEST(InlineComposite, InnerCompositeOperatorsAreNotExpandedUntilTheyAreInlined) {
  const std::vector<at::Tensor> inputs{at::randn({2, 4, 6, 6}), at::ones({4}), at::zeros({4})};
  OneCall call("aten::group_norm", "", {operand(0), c10::IValue(2), operand(1), operand(2)}, inputs);
  EXPECT_TRUE(inline_composite(call.graph, call.node));
  EXPECT_EQ(operators_of(call.graph), "native_group_norm");
  expect_same(run_graph(call.graph, inputs), call.expected);

  const std::vector<at::Tensor> image{at::randn({1, 2, 6, 6}), at::randn({3, 2, 3, 3})};
  OneCall convolution("aten::conv2d", "", {operand(0), operand(1)}, image);
  EXPECT_TRUE(inline_composite(convolution.graph, convolution.node));
  EXPECT_EQ(operators_of(convolution.graph), "convolution");
  expect_same(run_graph(convolution.graph, image), convolution.expected);
  EXPECT_FALSE(inline_composite(convolution.graph, convolution.graph.first())) << "it is made of nothing else";
}

TEST(InlineComposite, ListsGoInAndComeOut) {
  const std::vector<at::Tensor> inputs{at::randn({2, 6})};
  OneCall chunk("aten::chunk", "", {operand(0), c10::IValue(3), c10::IValue(1)}, inputs);
  EXPECT_TRUE(inline_composite(chunk.graph, chunk.node));
  EXPECT_EQ(operators_of(chunk.graph), "split.Tensor");
  expect_same(run_graph(chunk.graph, inputs), chunk.expected);

  const std::vector<at::Tensor> rows{at::randn({3}), at::randn({3})};
  OneCall stack("aten::vstack", "", {Argument::list({operand(0), operand(1)})}, rows);
  EXPECT_TRUE(inline_composite(stack.graph, stack.node));
  EXPECT_EQ(operators_of(stack.graph), "atleast_2d.Sequence cat");
  expect_same(run_graph(stack.graph, rows), stack.expected);
}

TEST(InlineComposite, FactoriesMakeTensorsOnTheProgramsDevice) {
  const std::vector<at::Tensor> inputs{at::randn({1, 2, 4, 8}), at::randn({1, 2, 4, 8}), at::randn({1, 2, 4, 8})};
  OneCall call(
      "aten::_scaled_dot_product_attention_math", "",
      {operand(0), operand(1), operand(2), Argument(), c10::IValue(0.0), c10::IValue(true)}, inputs);
  EXPECT_TRUE(inline_composite(call.graph, call.node));
  for (const auto* node = call.graph.first(); node != nullptr; node = node->next()) {
    for (const auto* output : node->outputs()) {
      EXPECT_TRUE(output == nullptr || output->tensor().device.is_cpu()) << target_name(*node);
    }
  }
  expect_same(run_graph(call.graph, inputs), call.expected);
}

TEST(InlineComposite, WhatGivesAnOperandBackIsTheOperand) {
  const std::vector<at::Tensor> inputs{at::randn({2, 3})};
  OneCall call("aten::dropout", "", {operand(0), c10::IValue(0.5), c10::IValue(false)}, inputs);
  EXPECT_TRUE(inline_composite(call.graph, call.node));
  EXPECT_EQ(operators_of(call.graph), "");
  EXPECT_EQ(call.graph.return_node()->operand(0), call.graph.inputs()[0]);
}

TEST(InlineComposite, LeavesAloneWhatItCannotRun) {
  const std::vector<at::Tensor> inputs{at::randn({2, 3}), at::tensor({1}, at::kLong)};
  OneCall relu("aten::relu", "", {operand(0)}, inputs);
  EXPECT_FALSE(inline_composite(relu.graph, relu.node)) << "not made of others";
  OneCall split("aten::tensor_split", "tensor_indices_or_sections", {operand(0), operand(1), c10::IValue(1)}, inputs);
  EXPECT_FALSE(inline_composite(split.graph, split.node)) << "it reads numbers";
  EXPECT_EQ(operators_of(split.graph), "tensor_split.tensor_indices_or_sections");
  OneCall symbolic("aten::linear", "", {operand(0), operand(0)}, {at::randn({3, 3})});
  std::get<TensorType>(symbolic.graph.inputs()[0]->type).sizes[0] = Size::symbol("s0");
  EXPECT_FALSE(inline_composite(symbolic.graph, symbolic.node));
}

const c10::KernelFunction& kernel_of(const Node& node) {
  return find_decomposition(target_name(node))->kernel;
}

/// Checks that the decomposition of the call, inlined for operands sharded along this dim, runs on plain tensors too.
std::string inlined(OneCall& call, const std::vector<at::Tensor>& inputs, int64_t tensor_dim) {
  const auto mesh = DeviceMesh(make_fake_world(4), c10::kCPU, {4}, {"tp"});
  for (auto* input : call.graph.inputs()) {
    input->layout = Layout{Shard(tensor_dim)};
  }
  inline_kernel(call.graph, call.node, kernel_of(*call.node), mesh);
  expect_same(run_graph(call.graph, inputs), call.expected);
  on_mesh({2}, [&](const DeviceMesh& ranks) {
    std::vector<at::Tensor> distributed;
    for (const auto& input : inputs) {
      distributed.push_back(distribute_tensor(input, ranks, {Shard(tensor_dim)}));
    }
    std::vector<at::Tensor> results;
    for (const auto& result : run_graph(call.graph, distributed)) {
      results.push_back(full_tensor(result));
    }
    expect_same(results, call.expected);
  });
  return operators_of(call.graph);
}

TEST(InlineKernel, ADecompositionBecomesOperatorsOnGlobalTensors) {
  const std::vector<at::Tensor> inputs{at::randn({8, 6})};
  const auto dims = c10::IValue(std::vector<int64_t>{0});
  OneCall mean("aten::mean", "dim", {operand(0), dims}, inputs);
  EXPECT_EQ(inlined(mean, inputs, 0), "sum.dim_IntList div.Scalar");
  const std::vector<at::Tensor> halves{whole_numbers({8, 6}, at::kHalf)};
  OneCall half("aten::mean", "dim", {operand(0), dims}, halves);
  EXPECT_EQ(inlined(half, halves, 0), "sum.dim_IntList div.Scalar to.dtype");
  OneCall variance("aten::var", "correction", {operand(0), dims}, inputs);
  EXPECT_EQ(inlined(variance, inputs, 0), "sum.dim_IntList div.Scalar sub.Tensor square sum.dim_IntList div.Scalar");
  OneCall both("aten::var_mean", "correction", {operand(0), dims}, inputs);
  inlined(both, inputs, 0);
  OneCall loss("aten::mse_loss", "", {operand(0), operand(1)}, {inputs[0], inputs[0] + 1});
  EXPECT_EQ(inlined(loss, {inputs[0], inputs[0] + 1}, 0), "mse_loss div.Scalar");
  OneCall norm("aten::linalg_vector_norm", "", {operand(0), c10::IValue(2), dims}, inputs);
  EXPECT_EQ(inlined(norm, inputs, 0), "abs pow.Tensor_Scalar sum.dim_IntList pow.Tensor_Scalar");
  const std::vector<at::Tensor> classes{at::randn({8, 6}).log_softmax(1), at::arange(8, at::kLong) % 6};
  OneCall picked(
      "aten::nll_loss_forward", "",
      {operand(0), operand(1), c10::IValue(), c10::IValue(int64_t{at::Reduction::Mean}), c10::IValue(-100)}, classes);
  EXPECT_EQ(inlined(picked, classes, 0), "nll_loss_forward div.Tensor") << "what is moved inside is left out";
  OneCall exponents("aten::logsumexp", "", {operand(0), dims}, inputs);
  inlined(exponents, inputs, 0);
}

TEST(InlineKernel, WhatOperatorsOnGlobalTensorsCannotExpressRaises) {
  const std::vector<at::Tensor> inputs{at::randn({8, 6}), at::randn({8, 6})};
  const DeviceMesh mesh(make_fake_world(4), c10::kCPU, {4}, {"tp"});
  OneCall sum("aten::add", "Tensor", {operand(0), operand(1)}, inputs);
  sum.graph.inputs()[0]->layout = Layout{Shard(0)};
  const auto kernel = c10::KernelFunction::makeFromUnboxedLambda(
      [](const at::Tensor& a, const at::Tensor& b, const at::Scalar& /*alpha*/) {
        return as_dtensor(a)->local() + as_dtensor(b)->local();
      });
  expect_contains(
      error_text<c10::NotImplementedError>([&] { inline_kernel(sum.graph, sum.node, kernel, mesh); }),
      "do not use the local one");
  EXPECT_EQ(operators_of(sum.graph), "add.Tensor");
  std::get<TensorType>(sum.graph.inputs()[0]->type).sizes[0] = Size::symbol("s0");
  expect_contains(
      error_text<c10::NotImplementedError>([&] { inline_kernel(sum.graph, sum.node, kernel, mesh); }),
      "the sizes of all operands must be numbers, but got symbols in those of aten::add.Tensor");
}

} // namespace inline_composite_test

} // namespace weft::graph
