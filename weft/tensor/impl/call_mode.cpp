#include "weft/tensor/impl/call_mode.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <mutex>

namespace weft {

namespace {

/// No tensor has this key and torch registers no kernels for it, so that a mode can use it.
constexpr auto kModeKey = c10::DispatchKey::DeferredInit;

thread_local CallMode* current_mode = nullptr;

} // namespace

void call_in_mode(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  current_mode->call(op, keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kModeKey), stack);
}

namespace {

void install() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Kept for the life of the process, as ATen's own kernels are.
    static auto* library = new torch::Library(torch::Library::IMPL, "_", kModeKey, __FILE__, __LINE__);
    library->fallback(torch::CppFunction::makeFromBoxedFunction<&call_in_mode>());
  });
}

} // namespace

CallMode::CallMode() : outer_(current_mode) {
  install();
  current_mode = this;
  c10::impl::tls_set_dispatch_key_included(kModeKey, true);
}

CallMode::~CallMode() {
  current_mode = outer_;
  c10::impl::tls_set_dispatch_key_included(kModeKey, current_mode != nullptr);
}

} // namespace weft
