#include "weft/tensor/random/recorded_draws.h"

#include "weft/core/layout_algebra.h"
#include "weft/core/traced_tensor.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/impl/dtensor_impl.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/random/random_fill.h"
#include "weft/tensor/random/random_indices.h"
#include "weft/tensor/random/random_stream.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/library.h>

#include <algorithm>

namespace weft {

namespace {

thread_local TracedDraws traced_draws = TracedDraws::Refused;
thread_local RecordedDraws recorded;
thread_local std::optional<RandomCall> first_call; // of the program that this thread runs

template <class... Arguments>
at::Tensor call_operator(const char* name, Arguments... arguments) {
  torch::jit::Stack stack{c10::IValue(std::move(arguments))...};
  c10::Dispatcher::singleton().findSchemaOrThrow(name, "").callBoxed(stack);
  return stack[0].toTensor();
}

at::Tensor random_call(int64_t index, std::optional<at::Device> /*device*/) {
  TORCH_CHECK_VALUE(
      first_call, "[random] a program that torch.compile made is required for its draw ", index,
      ", but got another. Call what torch.compile returned.");
  const auto result = at::empty({2}, at::kLong);
  auto* const values = result.mutable_data_ptr<int64_t>();
  values[0] = static_cast<int64_t>(first_call->seed);
  values[1] = static_cast<int64_t>(first_call->number) + index;
  return result;
}

at::Tensor random_numbers(
    const at::Tensor& call,
    c10::IntArrayRef indices,
    c10::IntArrayRef shape,
    at::ScalarType dtype,
    at::Device device,
    int64_t kind,
    double a,
    double b,
    int64_t first,
    int64_t count) {
  const auto result = at::empty(shape, at::TensorOptions(dtype).device(device));
  if (result.numel() > 0) {
    const auto values = call.contiguous();
    const auto* const of_call = values.const_data_ptr<int64_t>();
    const Distribution distribution{static_cast<Distribution::Kind>(kind), a, b, first, static_cast<uint64_t>(count)};
    fill_contiguous(
        result, LocalIndices(indices), distribution,
        {static_cast<uint64_t>(of_call[0]), static_cast<uint64_t>(of_call[1])});
  }
  return result;
}

} // namespace

TracedDraws exchange_traced_draws(TracedDraws draws) {
  return std::exchange(traced_draws, draws);
}

RecordedDraws take_recorded_draws() {
  return std::exchange(recorded, {});
}

void record_draw(
    const at::Tensor& local,
    const TensorSpec& spec,
    const Distribution& distribution,
    const std::optional<at::Generator>& generator) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !(generator && generator->defined()) && !stream_generator(),
      "[random] random numbers of the state of weft.manual_seed are required in compiled code, but got a generator. "
      "Draw them outside.");
  if (traced_draws == TracedDraws::Unnumbered) {
    return;
  }
  if (traced_draws == TracedDraws::Refused) {
    check_not_traced(local);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      torch::autograd::get_current_graph_task_id() == -1,
      "[random] random numbers that forward draws are required in compiled code, but got a backward that draws some "
      "for ",
      spec, ". Exclude the function by torch.compiler.disable.");
  const auto index = recorded.calls++;
  if (std::ranges::find(recorded.meshes, spec.mesh()) == recorded.meshes.end()) {
    recorded.meshes.push_back(spec.mesh());
  }
  if (local.numel() == 0) {
    return;
  }
  const auto call = call_operator("weft::random_call", index, std::optional<at::Device>());
  local.copy_(call_operator(
      "weft::random_numbers", call, LocalIndices::encoded(spec), local.sizes().vec(), local.scalar_type(),
      local.device(), static_cast<int64_t>(distribution.kind), distribution.a, distribution.b, distribution.first,
      static_cast<int64_t>(distribution.count)));
}

DrawnCalls::DrawnCalls(const RecordedDraws& draws) : outer_(first_call) {
  auto state = random_state();
  first_call = RandomCall{state.seed, state.calls};
  state.calls += draws.calls;
  set_random_state(state);
  for (const auto& mesh : draws.meshes) {
    before_draw(mesh, *first_call);
  }
}

DrawnCalls::~DrawnCalls() {
  first_call = outer_;
}

bool is_distributed_of_tracer(const at::Tensor& tensor) {
  const auto* impl = as_dtensor(tensor);
  return impl != nullptr && is_traced(impl->local());
}

void assert_when_run(const at::Tensor& condition, const std::string& message) {
  const auto known = redistribute(condition, replicated(spec_of(condition)->mesh()));
  at::_assert_async(as_dtensor(known)->local(), message);
}

} // namespace weft

TORCH_LIBRARY_FRAGMENT(weft, library) {
  // The seed and number of a draw of this run of the program, as two int64 on the CPU.
  library.def("random_call(int index, *, Device? device=None) -> Tensor");
  // Numbers of the elements of a contiguous tensor: those of weft::fill_random for a call, indices as LocalIndices
  // encodes them, and the members of a Distribution.
  library.def(
      "random_numbers(Tensor call, int[] indices, int[] shape, ScalarType dtype, Device device, int kind, float a, "
      "float b, int first, int count) -> Tensor");
  library.impl("random_call", c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(weft::random_call));
  library.impl("random_numbers", c10::DispatchKey::CompositeExplicitAutograd, TORCH_FN(weft::random_numbers));
}
