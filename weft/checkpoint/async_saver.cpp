#include "weft/checkpoint/async_saver.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <atomic>

namespace weft {

namespace {

bool can_hold(const at::Tensor& buffer, const at::Tensor& tensor) {
  return buffer.defined() && buffer.sizes() == tensor.sizes() && buffer.scalar_type() == tensor.scalar_type() &&
      buffer.is_pinned() == tensor.is_cuda();
}

} // namespace

AsyncSaver::~AsyncSaver() {
  join();
  if (error_) {
    try {
      std::rethrow_exception(error_);
    } catch (const std::exception& error) {
      TORCH_WARN("an asynchronous save has failed: ", error.what());
    }
  }
}

void AsyncSaver::save(const LocalState& state, const std::string& folder, const SaveOptions& options) {
  wait();
  snapshot(state);
  is_saving_ = true;
  thread_ = std::thread([this, folder, options] {
    try {
      save_files(copy_, folder, ranks_, options);
    } catch (...) {
      error_ = std::current_exception();
    }
    is_saving_ = false;
  });
}

void AsyncSaver::wait() {
  join();
  if (error_) {
    std::rethrow_exception(std::exchange(error_, nullptr));
  }
}

void AsyncSaver::join() {
  if (thread_.joinable()) {
    thread_.join();
  }
}

void AsyncSaver::snapshot(const LocalState& state) {
  const c10::InferenceMode no_inference(false);
  const c10::NoGradGuard no_grad;
  LocalState next{.tensors = {}, .values = state.values, .error = state.error};
  std::vector<c10::Device> devices;
  for (const auto& [name, tensor] : state.tensors) {
    const auto found = copy_.tensors.find(name);
    auto buffer = found == copy_.tensors.end() ? at::Tensor() : found->second.local;
    if (!can_hold(buffer, tensor.local)) {
      const auto options = at::TensorOptions(tensor.local.scalar_type()).device(at::kCPU);
      buffer = at::empty(tensor.local.sizes(), options.pinned_memory(tensor.local.is_cuda()));
    }
    buffer.copy_(tensor.local, /*non_blocking=*/tensor.local.is_cuda());
    if (tensor.local.is_cuda() && std::find(devices.begin(), devices.end(), tensor.local.device()) == devices.end()) {
      devices.push_back(tensor.local.device());
    }
    next.tensors.emplace(name, LocalTensor{buffer, tensor.spec});
  }
  for (const auto& device : devices) {
    // The copies run on the stream of the tensors; only then may the program change them.
    c10::impl::VirtualGuardImpl(device.type()).getStream(device).synchronize();
  }
  copy_ = std::move(next);
}

} // namespace weft
