#include "weft/redistribute/functional_group.h"

#include "weft/redistribute/local_recorder.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/StringUtil.h>
#include <c10/util/accumulate.h>

namespace weft {

namespace {

NameGroup& group_namer() {
  static auto* name = new NameGroup(); // never destroyed: it may be a function of Python
  return *name;
}

/// An operator of c10d, called by its name so that tracers see it.
at::Tensor call_operator(const char* name, torch::jit::Stack stack) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const auto full = std::string("_c10d_functional::") + name;
  c10::Dispatcher::singleton().findSchemaOrThrow(full.c_str(), "").callBoxed(stack);
  return stack[0].toTensor();
}

} // namespace

void name_groups_by(NameGroup name) {
  group_namer() = std::move(name);
}

FunctionalGroup::FunctionalGroup(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims) : mesh_(mesh) {
  for (const auto m : mesh_dims) {
    if (mesh.size(m) > 1) {
      mesh_dims_.push_back(m);
      size_ *= mesh.size(m);
    }
  }
}

std::string FunctionalGroup::group_name(const char* collective) const {
  if (LocalRecorder::of_thread() != nullptr) {
    std::vector<std::string> names;
    for (const auto m : mesh_dims_) {
      names.push_back(mesh_.names()[m]);
    }
    return c10::Join(",", names);
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      group_namer(), "[", collective, "] a collective is recorded by the name of a process group, but got ", mesh_,
      ", whose ranks have none. Trace in processes that torchrun has started.");
  return group_namer()(mesh_, mesh_dims_);
}

template <class... Arguments>
at::Tensor FunctionalGroup::call(const char* name, Arguments... arguments) const {
  torch::jit::Stack stack{c10::IValue(std::move(arguments))...};
  stack.emplace_back(group_name(name));
  return call_operator("wait_tensor", {call_operator(name, std::move(stack))});
}

/// c10d has no average on every backend: it is a sum that is divided. Half precision is divided before the sum, which
/// may be too large for 16 bits where the average is not. Weft's own groups, which a LocalRecorder uses, have an average.
template <class Reduce>
at::Tensor FunctionalGroup::reduced(const at::Tensor& term, ReduceOp op, const Reduce& reduce) const {
  if (op != ReduceOp::Avg || LocalRecorder::of_thread() != nullptr) {
    return reduce(term.contiguous(), std::string(to_string(op)));
  }
  const std::string sum(to_string(ReduceOp::Sum));
  return term.scalar_type() == at::kHalf ? reduce(term.div(size_).contiguous(), sum)
                                         : reduce(term.contiguous(), sum).div(size_);
}

at::Tensor FunctionalGroup::all_reduce(const at::Tensor& term, ReduceOp op) const {
  return size_ == 1
      ? term
      : reduced(term, op, [&](const at::Tensor& t, const std::string& text) { return call("all_reduce", t, text); });
}

at::Tensor FunctionalGroup::all_gather(const at::Tensor& own) const {
  return size_ == 1 ? own.contiguous() : call("all_gather_into_tensor", own.contiguous(), size_);
}

at::Tensor FunctionalGroup::reduce_scatter(const at::Tensor& terms, ReduceOp op) const {
  return size_ == 1 ? terms.contiguous() : reduced(terms, op, [&](const at::Tensor& t, const std::string& text) {
    return call("reduce_scatter_tensor", t, text, size_);
  });
}

std::vector<at::Tensor> FunctionalGroup::all_to_all(
    const std::vector<at::Tensor>& sends,
    const std::vector<c10::DimVector>& shapes,
    const at::TensorOptions& options) const {
  std::vector<at::Tensor> parts;
  std::vector<int64_t> sent;
  for (const auto& each : sends) {
    sent.push_back(each.defined() ? each.numel() : 0);
    if (sent.back() > 0) {
      parts.push_back(each.reshape({-1}));
    }
  }
  std::vector<int64_t> received;
  for (const auto& shape : shapes) {
    received.push_back(c10::multiply_integers(shape));
  }
  const auto packed = parts.empty() ? at::empty({0}, options) : at::cat(parts, 0);
  const auto arrived = size_ == 1 ? packed : call("all_to_all_single", packed, received, sent);
  std::vector<at::Tensor> messages;
  int64_t begin = 0;
  for (size_t i = 0; i < shapes.size(); ++i) {
    messages.push_back(received[i] == 0 ? at::Tensor() : arrived.narrow(0, begin, received[i]).view(shapes[i]));
    begin += received[i];
  }
  return messages;
}

} // namespace weft
