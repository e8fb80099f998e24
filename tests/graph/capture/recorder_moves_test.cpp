#include "weft/graph/capture/recorder.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/run_program.h"
#include "weft/graph/capture/capture.h"
#include "weft/tensor/distribute.h"

#include <torch/torch.h>

#include <mutex>

namespace weft::graph {

namespace recorder_moves_test {
using namespace weft::testing;

/// Every value with its type and layout, and every call with its constants.
std::string text_of(const Program& program) {
  std::ostringstream text;
  const auto add = [&](const Value* value) {
    text << "%" << value->name();
    if (value->is_tensor()) {
      text << ": " << value->tensor().dtype << "[";
      for (const auto& size : value->tensor().sizes) {
        text << size.to_string() << ",";
      }
      text << "]" << (value->layout ? value->layout->to_string() : "");
    }
    text << " ";
  };
  for (const auto* input : program.graph->inputs()) {
    add(input);
  }
  for (const auto* node = program.graph->first(); node != nullptr; node = node->next()) {
    text << "\n" << target_name(*node) << "(";
    for (const auto& argument : node->arguments()) {
      if (argument.is_constant()) {
        text << argument.constant() << ", ";
      }
    }
    for (size_t i = 0; i < node->operand_count(); ++i) {
      text << "%" << node->operand(i)->name() << " ";
    }
    text << ") ";
    for (const auto* output : node->outputs()) {
      if (output != nullptr) {
        add(output);
      }
    }
  }
  return text.str();
}

/// Captures on every rank, runs the program there, and compares with the function. Returns the text.
std::string captured_on_ranks(
    const std::vector<int64_t>& mesh_shape,
    const std::function<std::vector<at::Tensor>(const DeviceMesh& mesh)>& make_inputs,
    const CapturedFunction& fn) {
  std::mutex mutex;
  std::vector<std::string> texts;
  on_mesh(mesh_shape, [&](const DeviceMesh& mesh) {
    const auto program = capture(fn, make_inputs(mesh));
    EXPECT_EQ(program.mesh, std::optional(mesh));
    const auto inputs = make_inputs(mesh);
    const auto expected = fn(inputs);
    const auto actual = run_program(program, inputs);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const auto full = [](const at::Tensor& t) { return is_dtensor(t) ? full_tensor(t.detach()) : t.detach(); };
      expect_equal(full(actual[i]), full(expected[i]));
    }
    const std::lock_guard lock(mutex);
    texts.push_back(text_of(program));
  });
  for (const auto& text : texts) {
    EXPECT_EQ(text, texts[0]);
  }
  return texts.empty() ? "" : texts[0];
}

std::vector<at::Tensor> column_and_row(const DeviceMesh& mesh) {
  return {
      distribute_tensor(whole_numbers({4, 6}), mesh, {Replicate()}),
      distribute_tensor(whole_numbers({6, 8}), mesh, {Shard(1)}).set_requires_grad(true),
      distribute_tensor(whole_numbers({8, 2}), mesh, {Shard(0)}).set_requires_grad(true)};
}

TEST(RecorderMoves, AProgramOfDistributedTensorsHasGlobalTensorsWithLayouts) {
  const auto text = captured_on_ranks({2}, column_and_row, [](const std::vector<at::Tensor>& in) {
    const at::NoGradGuard no_gradients;
    return std::vector<at::Tensor>{redistribute(in[0].mm(in[1]).relu().mm(in[2]), {Replicate()})};
  });
  EXPECT_EQ(
      text,
      "%input_0: Float[4,6,]{R} %input_1: Float[6,8,]{S(1)} %input_2: Float[8,2,]{S(0)} "
      "\naten::mm(%input_0 %input_1 ) %mm: Float[4,8,]{S(1)} "
      "\naten::relu(%mm ) %relu: Float[4,8,]{S(1)} "
      "\naten::mm(%relu %input_2 ) %mm_1: Float[4,2,]{P(sum)} "
      "\nall_reduce(%mm_1 ) %all_reduce: Float[4,2,]{R} "
      "\nreturn(%all_reduce ) ");
}

TEST(RecorderMoves, BackwardOfDistributedTensors) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2}, {3}}) {
    captured_on_ranks(shape, column_and_row, [](const std::vector<at::Tensor>& in) {
      const auto loss = full_tensor(in[0].mm(in[1]).relu().mm(in[2])).square().sum();
      const auto gradients = torch::autograd::grad({loss}, {in[1], in[2]});
      return std::vector<at::Tensor>{loss, gradients[0], gradients[1]};
    });
  }
}

TEST(RecorderMoves, ModelsOfSeveralOperators) {
  const auto make = [](const DeviceMesh& mesh) {
    const auto ids = at::arange(6, at::kLong).view({2, 3});
    return std::vector<at::Tensor>{
        distribute_tensor(ids, mesh, {Replicate()}),
        distribute_tensor(whole_numbers({7, 8}) / 16, mesh, {Shard(0)}).set_requires_grad(true),
        distribute_tensor(whole_numbers({8, 8}) / 16, mesh, {Shard(0)}).set_requires_grad(true)};
  };
  captured_on_ranks({2}, make, [](const std::vector<at::Tensor>& in) {
    const auto h = at::embedding(in[1], in[0]);
    const auto heads = at::linear(h, in[2]).view({2, 3, 2, 4}).transpose(1, 2);
    const auto attended = at::scaled_dot_product_attention(heads, heads, heads);
    const auto out = at::layer_norm(attended.transpose(1, 2).reshape({2, 3, 8}) + h, {8});
    const auto loss = full_tensor(out.square().mean());
    const auto gradients = torch::autograd::grad({loss}, {in[1], in[2]});
    return std::vector<at::Tensor>{loss, gradients[0], gradients[1]};
  });
}

TEST(RecorderMoves, AConvolutionOfShardedImagesGoesByItsRule) {
  const auto make = [](const DeviceMesh& mesh) {
    return std::vector<at::Tensor>{
        distribute_tensor(whole_numbers({1, 2, 12}), mesh, {Shard(2)}).set_requires_grad(true),
        distribute_tensor(whole_numbers({3, 2, 3}), mesh, {Replicate()})};
  };
  const auto fn = [](const std::vector<at::Tensor>& in) {
    const auto y = at::conv1d(in[0], in[1], {}, 1, 1);
    return std::vector<at::Tensor>{y, torch::autograd::grad({full_tensor(y).sum()}, {in[0]})[0]};
  };
  on_mesh({2}, [&](const DeviceMesh& mesh) { EXPECT_EQ(spec_of(fn(make(mesh))[0])->layout(), Layout{Shard(2)}); });
  const auto text = captured_on_ranks({2}, make, fn);
  EXPECT_EQ(text.find("Float[1,3,12,]{S(2)}"), std::string::npos) << "a program has no halo exchange:\n" << text;
}

TEST(RecorderMoves, AStepOfAnOptimizer) {
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto make = [&] {
      return distribute_tensor(whole_numbers({4, 4}) / 8, mesh, {Shard(0)}).set_requires_grad(true);
    };
    const auto x = distribute_tensor(whole_numbers({2, 4}) / 8, mesh, {Replicate()});
    const auto step_of = [](const at::Tensor& w, torch::optim::SGD& optimizer) {
      return [&w, &optimizer](const std::vector<at::Tensor>& in) {
        optimizer.zero_grad();
        at::linear(in[0], w).square().sum().backward();
        optimizer.step();
        return std::vector<at::Tensor>{};
      };
    };
    const auto w = make();
    const auto by_hand = make();
    torch::optim::SGD optimizer({w}, torch::optim::SGDOptions(0.1));
    torch::optim::SGD same({by_hand}, torch::optim::SGDOptions(0.1));
    const auto program = capture(step_of(w, optimizer), {x}, {.parameters = {{"w", w}}});
    step_of(by_hand, same)({x});
    expect_equal(full_tensor(w.detach()), full_tensor(by_hand.detach()));
    run_program(program, {x});
    step_of(by_hand, same)({x});
    expect_equal(full_tensor(w.detach()), full_tensor(by_hand.detach()));
  });
}

TEST(RecorderMoves, LocalTensorsRaise) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto x = distribute_tensor(whole_numbers({4, 6}), mesh, {Shard(0)});
    const auto text = [&](const CapturedFunction& fn) {
      return error_text<c10::NotImplementedError>([&] { capture(fn, {x}); });
    };
    expect_contains(
        text([](const std::vector<at::Tensor>& in) { return std::vector<at::Tensor>{to_local(in[0])}; }),
        "only a replicated tensor may become plain or distributed, but got f32[4,6] @ mesh(a=2) {S(0)}. Use "
        "full_tensor instead of to_local.");
    expect_contains(
        text([&](const std::vector<at::Tensor>&) {
          return std::vector<at::Tensor>{from_local(at::ones({2}), mesh, {Shard(0)})};
        }),
        "Distribute the tensor outside of the function.");
    expect_contains(
        text(
            [&](const std::vector<at::Tensor>& in) { return std::vector<at::Tensor>{as_dtensor(in[0])->local() + 1}; }),
        "do not use the local one");
  });
}

} // namespace recorder_moves_test

} // namespace weft::graph
