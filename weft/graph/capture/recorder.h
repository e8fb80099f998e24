#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/graph/capture/tensor_table.h"
#include "weft/graph/capture/trace.h"
#include "weft/tensor/impl/call_mode.h"
#include "weft/tensor/impl/move_observer.h"

#include <c10/core/AutogradState.h>

namespace weft::graph {

/// Records every operator that this thread calls while the object exists, in forward and backward, as calls on values.
///
///   Recorder recorder;
///   const auto x = recorder.input(tensor);
///   const auto y = recorder.output(tensor.mul(2).relu());
///   const Trace trace = recorder.finish();      // mul.Scalar(x, 2), relu
///
/// A composite operator is recorded as one call (aten::linear), unless the backward uses a tensor that was computed
/// inside of it: then its inner calls are recorded. In-place operators stay in place: their result is the tensor's
/// value from then on, and earlier views are values that change with it, so that the order of the calls matters. A
/// tensor that is neither an input nor the result of an operator is a constant. Reading a number from a tensor raises,
/// because the use of the number could not be recorded.
///
/// Distributed tensors are recorded as global tensors: redistributions become steps, and communication inside of
/// operators is left out.
class Recorder : private CallMode, private MoveObserver {
 public:
  Recorder();
  ~Recorder() override;

  ValueId input(const at::Tensor& tensor);
  bool is_value(const at::Tensor& tensor) const {
    return tensors_.find(tensor).has_value();
  }
  /// The value of a tensor that was recorded or is an input; another tensor becomes a constant.
  ValueId output(const at::Tensor& tensor);
  /// Returns the recorded calls and ends the recording.
  Trace finish();

 private:
  class OpenCall;
  /// Registers a tensor of uninitialized memory, as factories such as `empty` return them.
  struct Blank {
    at::Tensor tensor;
    ValueId value;
  };

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) override;
  at::Tensor observe(const at::Tensor& tensor, c10::function_ref<at::Tensor()> move) override;
  bool is_watching() const override {
    return !is_inside();
  }
  bool is_inside() const;
  bool are_known(c10::ArrayRef<c10::IValue> arguments) const;
  void run_inside(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

  void set_mesh(const DeviceMesh& mesh);
  ValueId add_value(const at::Tensor& tensor);
  ValueId add_constant(const at::Tensor& tensor);
  ValueId value_of(const at::Tensor& tensor);
  void use(ValueId value);
  void read_arguments(TracedCall& call, c10::ArrayRef<c10::IValue> values);
  Argument read_argument(TracedCall& call, const c10::IValue& value);
  Argument operand(TracedCall& call, const at::Tensor& tensor);
  void fill_blank(const at::Tensor& tensor);
  void fill_blanks(const TracedCall& call, c10::ArrayRef<c10::IValue> values);
  void note_blank(const TracedCall& call, const at::Tensor& tensor);
  bool is_made_inside(const TracedCall& call, c10::ArrayRef<c10::IValue> outputs) const;
  void set_outputs(TracedCall& call, c10::ArrayRef<c10::IValue> outputs);
  std::optional<ValueId> set_output(TracedCall& call, const at::Tensor& tensor);

  ValueId add_call(Target target, Arguments arguments, ValueId operand, TracedValue value);
  ValueId add_steps(ValueId value, const SpecPtr& from, const SpecPtr& to);

  Trace trace_;
  TensorTable tensors_;
  std::vector<TracedCall*> open_;
  std::unordered_map<const void*, Blank> blanks_;
  bool is_moving_ = false;
  bool was_multithreaded_;
};

} // namespace weft::graph
