#pragma once

#include "weft/graph/capture/tensor_table.h"
#include "weft/graph/capture/trace.h"
#include "weft/tensor/call_mode.h"

#include <c10/core/AutogradState.h>

namespace weft::graph {

/// Records every operator that this thread calls while it lasts, as calls on values, forward and backward.
///
///   Recorder recorder;
///   const auto x = recorder.input(tensor);
///   const auto y = recorder.value_of(tensor.mul(2).relu());
///   const Trace trace = recorder.finish();      // mul.Scalar(x, 2), relu
///
/// Operators that are made of others are recorded whole (aten::linear), unless backward uses what was made inside of them:
/// then as those. Operators in place stay as they are: what they give is the tensor's value from then on, and views that
/// were taken before are values that change with it, so that the order of the calls counts. A tensor that is neither an
/// input nor made by operators is a constant. Numbers that are read out of tensors raise, since what is done with them
/// could not be recorded.
class Recorder : private CallMode {
 public:
  Recorder();
  ~Recorder() override;

  ValueId input(const at::Tensor& tensor);
  /// Of a tensor that was given or recorded, or of a constant.
  ValueId value_of(const at::Tensor& tensor);
  /// What was recorded so far; the recorder is done.
  Trace finish();

 private:
  class OpenCall;
  /// A tensor of no values yet, as factories for `empty` make them.
  struct Blank {
    at::Tensor tensor;
    ValueId value;
  };

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) override;
  void run_inside(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

  ValueId add_value(const at::Tensor& tensor);
  ValueId add_constant(const at::Tensor& tensor);
  void use(ValueId value);
  void read_arguments(TracedCall& call, c10::ArrayRef<c10::IValue> values);
  Argument read_argument(TracedCall& call, const c10::IValue& value);
  Argument operand(TracedCall& call, const at::Tensor& tensor);
  void fill_blanks(const TracedCall& call, c10::ArrayRef<c10::IValue> values);
  void note_blank(const TracedCall& call, const at::Tensor& tensor);
  bool is_made_inside(const TracedCall& call, c10::ArrayRef<c10::IValue> outputs) const;
  void set_outputs(TracedCall& call, c10::ArrayRef<c10::IValue> outputs);
  std::optional<ValueId> set_output(TracedCall& call, const at::Tensor& tensor);

  Trace trace_;
  TensorTable tensors_;
  std::vector<TracedCall*> open_;
  std::unordered_map<const c10::StorageImpl*, Blank> blanks_;
  bool was_multithreaded_;
};

} // namespace weft::graph
