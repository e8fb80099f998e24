#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/PythonDispatcherTLS.h>

namespace weft {

/// Whether a local tensor is one of a compiler that traces the program (torch.compile, torch.export, make_fx): it has no
/// memory that may be read, and Python records the operators that it is given to. Collectives on it are recorded as
/// functional collectives, because an exchange of memory is no operator.
inline bool is_traced(const at::TensorBase& local) {
  return C10_UNLIKELY(local.defined() && local.key_set().has(c10::DispatchKey::Python));
}

/// Whether a tensor whose operators run in Python is one of a tracer, so that it may become a local tensor, and not of
/// another subclass. `recognize` tells; it is set by the Python package.
void recognize_tracers_by(bool (*recognize)(const at::TensorBase&));
bool is_of_tracer(const at::TensorBase& tensor);

/// Hides from a tracer what this thread computes about a call, such as a run of the operator on tensors without data.
class UntracedScope {
 public:
  UntracedScope() : exclude_(c10::python_ks) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard exclude_;
  c10::impl::DisablePythonDispatcher disable_;
};

} // namespace weft
