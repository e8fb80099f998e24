#pragma once

#include "weft/core/tensor_spec.h"
#include "weft/graph/capture/tensor_table.h"
#include "weft/graph/capture/trace.h"
#include "weft/tensor/impl/call_mode.h"

#include <c10/core/AutogradState.h>
#include <c10/util/FunctionRef.h>

namespace weft {
struct Plan;
} // namespace weft

namespace weft::graph {

/// What a recorder records of distributed tensors.
enum class RecordedLevel : uint8_t {
  Global, // operators on global tensors
  Local,  // what this rank does: the operators that Weft's kernels call on local tensors, and collectives
};

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
/// On the global level distributed tensors are recorded as global tensors: redistributions become steps, and
/// communication inside of operators is left out. On the local level the values are local tensors, which input() and
/// output() take, and the calls are those of this rank. Tensors of another origin than recorded operators become constants there
/// too, so that a caller must compare two recordings to know that they are the same in every run.
class Recorder : private CallMode {
 public:
  explicit Recorder(RecordedLevel level = RecordedLevel::Global);
  ~Recorder() override;

  ValueId input(const at::Tensor& tensor);
  bool is_value(const at::Tensor& tensor) const {
    return tensors_.find(tensor).has_value();
  }
  /// Whether a recorded operator made the tensor.
  bool is_made(const at::Tensor& tensor) const;
  /// On the local level: the distributed tensors from outside whose local tensors the calls use.
  const std::vector<at::Tensor>& outside() const {
    return outside_;
  }
  /// The value of a tensor that was recorded or is an input; another tensor becomes a constant.
  ValueId output(const at::Tensor& tensor);
  /// Returns the recorded calls and ends the recording.
  Trace finish();

 private:
  class OpenCall;
  class GlobalMoves;
  class LocalMoves;
  /// Registers a tensor of uninitialized memory, as factories such as `empty` return them.
  struct Blank {
    at::Tensor tensor;
    ValueId value;
  };

  void call(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) override;
  at::Tensor record_move(const at::Tensor& tensor, c10::function_ref<at::Tensor()> move);
  at::Tensor record_redistribution(const Plan& plan, const at::Tensor& local, c10::function_ref<at::Tensor()> run);
  /// On the local level: runs calls that are not recorded themselves. Returns false for the others.
  bool run_local(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);
  void run_collective(const c10::OperatorHandle& op, torch::jit::Stack* stack) const;
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

  void note_outside(c10::ArrayRef<c10::IValue> arguments);
  ValueId add_call(Target target, Arguments arguments, ValueId operand, TracedValue value);
  ValueId add_steps(ValueId value, const SpecPtr& from, const SpecPtr& to);

  std::unique_ptr<GlobalMoves> global_moves_; // on the global level
  std::unique_ptr<LocalMoves> local_moves_;   // on the local level
  std::vector<at::Tensor> outside_;
  Trace trace_;
  TensorTable tensors_;
  std::vector<TracedCall*> open_;
  std::unordered_map<const void*, Blank> blanks_;
  bool is_moving_ = false;
  bool was_multithreaded_;
};

} // namespace weft::graph
