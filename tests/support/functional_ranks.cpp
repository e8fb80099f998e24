#include "tests/support/functional_ranks.h"

#include "weft/redistribute/functional_group.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace weft::testing {

namespace {

std::shared_ptr<Group> group_of(const c10::IValue& name) {
  return named_group(name.toStringRef(), c10::kCPU);
}

/// Takes the arguments off the stack.
std::vector<c10::IValue> taken(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  return torch::jit::pop(*stack, op.schema().arguments().size());
}

void all_reduce(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto arguments = taken(op, stack);
  const auto term = arguments[0].toTensor();
  const auto output = at::empty_like(term);
  const auto reduce = arguments[1].toStringRef();
  for (const auto known : {ReduceOp::Sum, ReduceOp::Product, ReduceOp::Max, ReduceOp::Min}) {
    if (to_string(known) == reduce) {
      group_of(arguments[2])->all_reduce(term, output, known).wait();
      stack->emplace_back(output);
      return;
    }
  }
  TORCH_CHECK(false, "no such reduction: ", reduce);
}

void all_gather(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto arguments = taken(op, stack);
  const auto own = arguments[0].toTensor();
  auto sizes = own.sizes().vec();
  sizes[0] *= arguments[1].toInt();
  const auto output = at::empty(sizes, own.options());
  auto chunks = output.chunk(arguments[1].toInt(), 0);
  group_of(arguments[2])->all_gather(own, chunks).wait();
  stack->emplace_back(output);
}

void reduce_scatter(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto arguments = taken(op, stack);
  const auto terms = arguments[0].toTensor().chunk(arguments[2].toInt(), 0);
  const auto output = at::empty_like(terms[0], at::MemoryFormat::Contiguous);
  const auto reduce = arguments[1].toStringRef() == "sum" ? ReduceOp::Sum
      : arguments[1].toStringRef() == "max"               ? ReduceOp::Max
      : arguments[1].toStringRef() == "min"               ? ReduceOp::Min
                                                          : ReduceOp::Product;
  group_of(arguments[3])->reduce_scatter(terms, output, reduce).wait();
  stack->emplace_back(output);
}

void all_to_all(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto arguments = taken(op, stack);
  const auto packed = arguments[0].toTensor();
  const auto received = arguments[1].toIntVector();
  const auto output = at::empty({std::accumulate(received.begin(), received.end(), int64_t{0})}, packed.options());
  const auto sends = packed.split_with_sizes(arguments[2].toIntVector());
  const auto recvs = output.split_with_sizes(received);
  group_of(arguments[3])->all_to_all(sends, recvs).wait();
  stack->emplace_back(output);
}

void register_collectives() {
  static auto* library =
      new torch::Library(torch::Library::IMPL, "_c10d_functional", c10::DispatchKey::CPU, __FILE__, __LINE__);
  library->impl("all_reduce", torch::CppFunction::makeFromBoxedFunction<&all_reduce>());
  library->impl("all_gather_into_tensor", torch::CppFunction::makeFromBoxedFunction<&all_gather>());
  library->impl("reduce_scatter_tensor", torch::CppFunction::makeFromBoxedFunction<&reduce_scatter>());
  library->impl("all_to_all_single", torch::CppFunction::makeFromBoxedFunction<&all_to_all>());
  name_groups_by([](const DeviceMesh& mesh, c10::IntArrayRef mesh_dims) { return mesh.dims_text(mesh_dims); });
}

} // namespace

FunctionalRanks::FunctionalRanks(const DeviceMesh& mesh) : scope_(groups_of(mesh)) {
  static const bool is_registered = (register_collectives(), true);
  TORCH_CHECK(is_registered);
}

} // namespace weft::testing
