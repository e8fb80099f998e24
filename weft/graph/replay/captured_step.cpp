#include "weft/graph/replay/captured_step.h"

#include "weft/comm/collectives.h"
#include "weft/comm/world/current_world.h"
#include "weft/graph/analysis/effects.h"
#include "weft/graph/exec/executor.h"
#include "weft/graph/ir/print.h"
#include "weft/graph/localize/bucket_collectives.h"
#include "weft/graph/localize/hoist_collectives.h"
#include "weft/graph/replay/recorded_call.h"
#include "weft/graph/simplify/dead_code.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/inspect.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include <numeric>

namespace weft::graph {

namespace {

/// A call that differs from the one before it is forgiven once, because first calls create states.
constexpr size_t kMaxRecordings = 3;

const at::Tensor& local_of(const at::Tensor& tensor) {
  const auto* distributed = as_dtensor(tensor);
  return distributed == nullptr ? tensor : distributed->local();
}

/// The kind and shape of an input or a result.
struct LocalForm {
  SpecPtr spec; // of a distributed tensor
  c10::DimVector sizes;
  c10::DimVector strides;
  at::TensorOptions options;

  static LocalForm of(const at::Tensor& tensor) {
    const auto* distributed = as_dtensor(tensor);
    const auto& local = local_of(tensor);
    return {
        distributed == nullptr ? SpecPtr() : distributed->spec(), c10::DimVector(local.sizes()),
        c10::DimVector(local.strides()), local.options()};
  }
  bool fits(const at::Tensor& tensor) const {
    const auto* distributed = as_dtensor(tensor);
    const auto& local = local_of(tensor);
    return (distributed == nullptr ? !spec : distributed->spec() == spec) && local.sizes() == sizes &&
        local.strides() == strides && local.dtype() == options.dtype() && local.device() == options.device();
  }
  std::string to_string() const {
    return spec ? c10::str(*spec, ", local ", c10::IntArrayRef(sizes), " of strides ", c10::IntArrayRef(strides))
                : c10::str(
                      "a plain tensor of ", options.dtype(), " and shape ", c10::IntArrayRef(sizes), " of strides ",
                      c10::IntArrayRef(strides));
  }
};

/// A tensor that the program uses, and the local memory that it had when it was recorded.
struct UsedTensor {
  at::Tensor tensor;
  const void* memory;
  bool is_written;
};

const void* memory_of(const at::Tensor& tensor) {
  const auto& local = local_of(tensor);
  return local.has_storage() ? local.storage().unsafeGetStorageImpl() : nullptr;
}

void note_write(const at::Tensor& tensor) {
  if (const auto* distributed = as_dtensor(tensor)) {
    distributed->count_write();
  }
  if (!tensor.is_inference()) {
    tensor.unsafeGetTensorImpl()->bump_version();
  }
}

/// The executor's results are inference tensors, which autograd refuses. This is the same memory as an ordinary one.
at::Tensor outside_of_inference(const at::Tensor& tensor) {
  auto same = at::empty({0}, tensor.options());
  return same.set_(tensor.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
}

/// Attention without dropout draws no numbers, although its operator may.
bool draws_numbers(const Node& node) {
  if (!is_random(node)) {
    return false;
  }
  const auto& schema = node.op()->schema();
  const auto dropout = schema.argumentIndexWithName("dropout_p");
  if (!dropout) {
    return true;
  }
  const auto& given = node.arguments()[*dropout];
  const auto value = given.is_absent() ? schema.arguments()[*dropout].default_value().value() : given.constant();
  return !value.isDouble() || value.toDouble() != 0;
}

/// The first node that draws random numbers, or nullptr.
const Node* find_draw(const Graph& graph) {
  for (const auto* node = graph.first(); node != nullptr; node = node->next()) {
    if (draws_numbers(*node)) {
      return node;
    }
  }
  return nullptr;
}

} // namespace

struct CapturedStep::State {
  State(CapturedFunction fn_, CaptureOptions options_) : fn(std::move(fn_)), options(std::move(options_)) {}

  std::vector<at::Tensor> record(const std::vector<at::Tensor>& inputs);
  std::vector<at::Tensor> replay(const std::vector<at::Tensor>& inputs);
  void check_inputs(const std::vector<at::Tensor>& inputs) const;
  void check_results(const LocalCapture& call, const std::vector<at::Tensor>& inputs) const;
  void check_memory() const;
  bool differs_on_any_rank(bool differs) const;
  void prepare(LocalCapture call);

  CapturedFunction fn;
  CaptureOptions options;
  size_t recordings = 0;
  std::optional<LocalCapture> previous;
  std::vector<LocalForm> input_forms;
  std::vector<LocalForm> result_forms;
  std::vector<UsedTensor> used;
  std::unique_ptr<Executor> executor;
};

void CapturedStep::State::check_inputs(const std::vector<at::Tensor>& inputs) const {
  TORCH_CHECK_VALUE(
      inputs.size() == input_forms.size(), "[CapturedStep] ", input_forms.size(),
      " inputs are required, as in the first call, but got ", inputs.size(), ".");
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(
        inputs[i].defined(), "[CapturedStep] inputs must be tensors, but got an undefined one at ", i, ".");
    if (is_dtensor(inputs[i])) {
      checked_values("CapturedStep", inputs[i]);
    }
    TORCH_CHECK_VALUE(
        input_forms[i].fits(inputs[i]), "[CapturedStep] input ", i, " must be as in the first call, ",
        input_forms[i].to_string(), ", but got ", LocalForm::of(inputs[i]).to_string(),
        ". Redistribute it, or make a CapturedStep for each form of the inputs.");
  }
}

void CapturedStep::State::check_results(const LocalCapture& call, const std::vector<at::Tensor>& inputs) const {
  for (size_t i = 0; i < call.results.size(); ++i) {
    const auto& local = local_of(call.results[i]);
    const auto shares = [&](const at::Tensor& other) {
      return local.has_storage() && local.numel() > 0 && memory_of(other) == memory_of(call.results[i]);
    };
    const auto is_shared = std::any_of(inputs.begin(), inputs.end(), shares) ||
        std::any_of(call.program.tensors.begin(), call.program.tensors.end(),
                    [&](const auto& named) { return shares(named.second); });
    TORCH_CHECK_VALUE(
        !is_shared, "[CapturedStep] results must have memory of their own, but result ", i,
        " is an input, a parameter or a state, or a view of one. Return a clone of it.");
  }
}

/// Ranks must begin to replay at the same call.
bool CapturedStep::State::differs_on_any_rank(bool differs) const {
  const auto& mesh = previous->program.mesh;
  if (!mesh || mesh->size() == 1) {
    return differs;
  }
  std::vector<int64_t> dims(mesh->ndim());
  std::iota(dims.begin(), dims.end(), int64_t{0});
  const auto flag = at::scalar_tensor(differs ? 1 : 0, at::TensorOptions(at::kLong).device(mesh->device_type()));
  return all_reduce(flag, *mesh, dims, ReduceOp::Max).wait().item<int64_t>() != 0;
}

std::vector<at::Tensor> CapturedStep::State::record(const std::vector<at::Tensor>& inputs) {
  auto call = capture_local(fn, inputs, options);
  check_results(call, inputs);
  for (auto& result : call.results) {
    result = result.detach();
  }
  auto results = call.results;
  ++recordings;
  if (!previous) {
    for (const auto& input : inputs) {
      input_forms.push_back(LocalForm::of(input));
    }
    previous = std::move(call);
    return results;
  }
  const auto text = difference(*previous, call);
  if (!differs_on_any_rank(!text.empty())) {
    prepare(std::move(call));
    previous.reset();
    return results;
  }
  TORCH_CHECK_VALUE(
      recordings < kMaxRecordings, "[CapturedStep] a function that does the same in every call is required, but ",
      text.empty() ? "on another rank, whose error tells more, it did not" : text,
      ". Keep what changes in tensors that are written to in place, and give the function what is new as inputs.");
  previous = std::move(call);
  return results;
}

void CapturedStep::State::prepare(LocalCapture call) {
  for (const auto& result : call.results) {
    result_forms.push_back(LocalForm::of(result));
  }
  auto& graph = *call.program.graph;
  const auto* draw = find_draw(graph);
  TORCH_CHECK_NOT_IMPLEMENTED(
      draw == nullptr || !in_world_scope() || current_world()->size() == 1,
      "[CapturedStep] ranks that are threads share torch's generator, so that a replay cannot draw the numbers that "
      "the "
      "function would, but got ",
      draw == nullptr ? std::string() : graph::to_string(*draw), ". Draw them before, and give them as input.");
  if (draw == nullptr) { // without an unused draw the others would get other numbers
    dead_code(graph);
  }
  bucket_collectives(graph);
  hoist_collectives(graph);
  const auto mesh = call.program.mesh.value_or(DeviceMesh());
  executor = std::make_unique<Executor>(
      std::make_shared<const Program>(std::move(call.program)), mesh, ExecutorOptions{.writes_to_tensors = true});
  std::unordered_map<const void*, bool> written; // by memory
  const auto& program = executor->program();
  for (const auto& [name, tensor] : program.tensors) {
    written[memory_of(tensor)] |= executor->changes_tensor(name);
    if (tensor.has_storage()) {
      used.push_back({tensor, memory_of(tensor), executor->changes_tensor(name)});
    }
  }
  for (const auto& tensor : call.outside) {
    const auto* memory = memory_of(tensor);
    used.push_back({tensor, memory, written[memory]});
  }
}

void CapturedStep::State::check_memory() const {
  for (const auto& each : used) {
    TORCH_CHECK_VALUE(
        memory_of(each.tensor) == each.memory,
        "[CapturedStep] tensors that were recorded must keep their memory, but one of shape ", each.tensor.sizes(),
        " has other memory now (set_data, set_). Write to it in place, or make a new CapturedStep.");
  }
}

std::vector<at::Tensor> CapturedStep::State::replay(const std::vector<at::Tensor>& inputs) {
  check_memory();
  std::vector<c10::IValue> locals;
  for (const auto& input : inputs) {
    locals.emplace_back(local_of(input));
  }
  auto outputs = executor->run(std::move(locals));
  for (const auto& each : used) {
    if (each.is_written) {
      note_write(each.tensor);
    }
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (executor->changes_input(i)) {
      note_write(inputs[i]);
    }
  }
  std::vector<at::Tensor> results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto local = outside_of_inference(outputs[i].toTensor());
    const auto& form = result_forms[i];
    results.push_back(form.spec ? make_dtensor(local, form.spec) : local);
  }
  return results;
}

CapturedStep::CapturedStep(CapturedFunction fn, CaptureOptions options)
    : state_(std::make_unique<State>(std::move(fn), std::move(options))) {}

CapturedStep::~CapturedStep() = default;
CapturedStep::CapturedStep(CapturedStep&&) noexcept = default;
CapturedStep& CapturedStep::operator=(CapturedStep&&) noexcept = default;

std::vector<at::Tensor> CapturedStep::run(const std::vector<at::Tensor>& inputs) {
  TORCH_CHECK_VALUE(
      !is_capturing(),
      "[CapturedStep] a step runs outside of other captured functions, but got one inside of another. Call its "
      "function "
      "there instead.");
  if (!state_->input_forms.empty() || state_->recordings > 0) {
    state_->check_inputs(inputs);
  }
  return state_->executor ? state_->replay(inputs) : state_->record(inputs);
}

bool CapturedStep::is_recorded() const {
  return state_->executor != nullptr;
}

const Program& CapturedStep::program() const {
  TORCH_CHECK(
      is_recorded(), "[CapturedStep] a program is there once two calls in a row did the same, but there were ",
      state_->recordings, " calls so far. Call run first.");
  return state_->executor->program();
}

} // namespace weft::graph
