#pragma once

#include "weft/graph/capture/capture.h"

#include <memory>

namespace weft::graph {

/// A function of distributed tensors, such as a training step, that is recorded once and then replayed: the executor
/// calls the recorded operators on this rank's local tensors, without Weft's kernels, autograd or C++ modules. A replay
/// gives the same bits as the function.
///
///   CapturedStep step([&](const std::vector<at::Tensor>& in) {
///     const auto loss = at::cross_entropy_loss(model->forward(in[0]).flatten(0, 1), in[1].flatten());
///     loss.backward();
///     take_adamw_step(model->parameters(), states);      // at::_fused_adamw_ with the step as a tensor
///     model->zero_grad();
///     return std::vector<at::Tensor>{loss};
///   });
///   for (const auto& [tokens, targets] : batches) {
///     const auto loss = step.run({tokens, targets})[0];
///   }
///
/// Every rank of the mesh makes the same calls. The first calls run the function and record it, until two calls in a row
/// did the same: the same operators with the same numbers on the same memory. All later calls are replays, which write
/// to the parameters and states in place. This finds out what cannot be replayed, and raises at the third call: numbers
/// and branches that change with every step (a bias correction that is computed in C++, as torch::optim::AdamW does),
/// state that the function replaces instead of writing to it, and memory that it fills without operators.
///
/// What a call reads apart from the inputs and the recorded memory is fixed: the learning rate as a number, modules that are
/// in training mode, scopes. A change of it needs a new CapturedStep. Random numbers of distributed tensors, numbers
/// that are read out of tensors, fully sharded modules and autocast raise. Results have no autograd graph: run the
/// backward inside of the function.
class CapturedStep {
 public:
  explicit CapturedStep(CapturedFunction fn, CaptureOptions options = {});
  ~CapturedStep();
  CapturedStep(CapturedStep&&) noexcept;
  CapturedStep& operator=(CapturedStep&&) noexcept;

  /// Inputs must have the specs of the first call, and plain ones its sizes and dtype. The results are new tensors with
  /// the specs of the recorded ones.
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs);

  /// Whether the next call is a replay.
  bool is_recorded() const;
  /// This rank's program; raises before it is recorded.
  const Program& program() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace weft::graph
