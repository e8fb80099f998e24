#include "weft/graph/capture/capture.h"

#include "weft/graph/capture/captured_program.h"
#include "weft/graph/capture/recorder.h"
#include "weft/redistribute/local_recorder.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/move_observer.h"

namespace weft::graph {

namespace {

/// A recording of one call of a function.
class CallRecording {
 public:
  explicit CallRecording(RecordedLevel level) : recorder_(level), level_(level) {}

  Program run(const CapturedFunction& fn, const std::vector<at::Tensor>& inputs, const CaptureOptions& options) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      TORCH_CHECK_VALUE(inputs[i].defined(), "[capture] inputs must be tensors, but got an undefined one at ", i, ".");
      add(InputKind::User, "input_" + std::to_string(i), inputs[i]);
    }
    add_named(InputKind::Parameter, options.parameters);
    add_named(InputKind::Buffer, options.buffers);
    results_ = fn(inputs);
    std::vector<ValueId> outputs;
    for (size_t i = 0; i < results_.size(); ++i) {
      TORCH_CHECK_VALUE(
          results_[i].defined(), "[capture] outputs must be tensors, but got an undefined one at ", i,
          ". Return what the function computes; a gradient is undefined where nothing leads to it.");
      outputs.push_back(recorder_.output(recorded(results_[i])));
    }
    check_no_new_gradients();
    return program_of(recorder_.finish(), std::move(outside_), outputs);
  }

  const Recorder& recorder() const {
    return recorder_;
  }
  std::vector<at::Tensor>& results() {
    return results_;
  }

 private:
  /// A replay would not set them.
  void check_no_new_gradients() const {
    for (const auto& tensor : recorder_.outside()) {
      const auto& gradient = tensor.is_leaf() ? tensor.grad() : at::Tensor();
      TORCH_CHECK_VALUE(
          !gradient.defined() || !recorder_.is_made(recorded(gradient)),
          "[capture] a function that is replayed must leave no new gradients behind, but got one of a tensor ",
          *as_dtensor(tensor)->spec(), ". Reset it in the function (zero_grad), or return it.");
    }
  }
  /// The tensor that the recorder knows: on the local level this rank's.
  const at::Tensor& recorded(const at::Tensor& tensor) const {
    const auto* distributed = level_ == RecordedLevel::Local ? as_dtensor(tensor) : nullptr;
    return distributed == nullptr ? tensor : distributed->local();
  }
  void add(InputKind kind, const std::string& name, const at::Tensor& tensor) {
    outside_.push_back({recorder_.input(recorded(tensor)), kind, name, recorded(tensor)});
  }
  void add_named(InputKind kind, const std::map<std::string, at::Tensor>& named) {
    for (const auto& [name, tensor] : named) {
      // A tensor with two names, or one that is also an input, keeps the first.
      if (tensor.defined() && !recorder_.is_value(recorded(tensor))) {
        add(kind, name, tensor);
      }
    }
  }

  Recorder recorder_;
  RecordedLevel level_;
  std::vector<Outside> outside_;
  std::vector<at::Tensor> results_;
};

} // namespace

Program capture(const CapturedFunction& fn, const std::vector<at::Tensor>& inputs, const CaptureOptions& options) {
  TORCH_CHECK_VALUE(
      !is_capturing(),
      "[capture] a function is captured by itself, but got one inside of another that is. Call it instead.");
  return CallRecording(RecordedLevel::Global).run(fn, inputs, options);
}

bool is_capturing() {
  return MoveObserver::of_thread() != nullptr || LocalRecorder::of_thread() != nullptr;
}

LocalCapture capture_local(
    const CapturedFunction& fn,
    const std::vector<at::Tensor>& inputs,
    const CaptureOptions& options) {
  TORCH_CHECK_VALUE(
      !is_capturing(),
      "[capture] a function is captured by itself, but got one inside of another that is. Call it instead.");
  LocalCapture captured;
  CallRecording recording(RecordedLevel::Local);
  captured.program = recording.run(fn, inputs, options);
  captured.results = std::move(recording.results());
  captured.outside = recording.recorder().outside();
  return captured;
}

} // namespace weft::graph
